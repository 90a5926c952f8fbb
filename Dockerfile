# The agent server: `docker build -t ldpbandits .`; docs/operating.md says how to run it.
FROM python:3.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY constraints.txt ./
RUN python -m venv /opt/ldpbandits \
    && /opt/ldpbandits/bin/pip install --constraint constraints.txt pip build hatchling
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# The wheel is what is installed: what is not in it is not in the image either.
RUN /opt/ldpbandits/bin/python -m build --wheel --no-isolation --outdir /wheel . \
    && rm -rf /opt/ldpbandits \
    && python -m venv /opt/ldpbandits \
    && /opt/ldpbandits/bin/pip install --constraint constraints.txt "$(echo /wheel/*.whl)[postgres]" \
    && /opt/ldpbandits/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm
# Its number is fixed, so that files outside of the container can be given to it.
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin ldpbandits \
    && install --directory --owner ldpbandits --group ldpbandits --mode 700 /data
COPY --from=build /opt/ldpbandits /opt/ldpbandits
# Nothing is written but to /data: the root file system may be read-only. A log is no place for keys: a first start
# writes those that it makes to a file.
ENV PATH=/opt/ldpbandits/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    LDPBANDITS_HOST=0.0.0.0 \
    LDPBANDITS_PORT=8000 \
    LDPBANDITS_DATABASE=/data/agent.db \
    LDPBANDITS_KEYS_FILE=/data/keys \
    LDPBANDITS_LOG_FORMAT=json
USER 10001
WORKDIR /data
# The folder, not the file: a database that is a mount of its own is refused, since its log would not be in it.
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["ldpbandits", "health"]
ENTRYPOINT ["ldpbandits"]
CMD ["serve"]

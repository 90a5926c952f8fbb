/**
 * Register the service worker of the site that sends responses in the place of its pages. Where there is none (plain HTTP,
 * some private windows) the page is told in the console, and goes on as `onLeave` says.
 *
 * @param {string} path of the SDK's worker on the site of this page
 * @param {RegistrationOptions} [options] such as { type: "module" }, where the SDK is not in single files
 * @returns {Promise<ServiceWorkerRegistration | undefined>} for the option `worker`
 */
export async function registerWorker(path, options) {
  try {
    return await navigator.serviceWorker.register(path, options);
  } catch (error) {
    console.warn(`ldpbandits: there is no service worker, so onLeave holds: ${/** @type {Error} */ (error)?.message}`);
    return undefined;
  }
}

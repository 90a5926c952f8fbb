/** Append a mark to the text of a storage so many times: `changer.js PATH MARK TIMES`. */

import { storageAt } from "../../src/node/storage-at.js";

const [path, mark, times] = process.argv.slice(2);
const storage = storageAt(path, { patience: Number(process.env.PATIENCE ?? 60_000) });
for (let i = 0; i < Number(times); i++) await storage.change((text) => `${text ?? ""}${mark}`);

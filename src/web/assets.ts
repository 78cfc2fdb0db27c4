/** The page's script, style and icon: files in `ui/`, read once at the start. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { projectFile } from '../storage/project-files.ts'

const TYPES = {
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** The files. `tag` is the value of the `ETag` header. */
export function readAssets() {
  return Promise.all(
    Object.entries(TYPES).map(async ([name, type]) => {
      const content = await readFile(projectFile(`ui/${name}`))
      const tag = `"${hash('sha256', content, 'base64url').slice(0, 22)}"`
      return { name, type, content, tag }
    }),
  )
}

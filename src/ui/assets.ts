/** The page's script, style and icon: plain files in `ui/`, read once at the start. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const DIRECTORY = fileURLToPath(new URL('../../ui', import.meta.url))

const TYPES = {
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const satisfies Record<string, string>

export interface Asset {
  name: string
  type: string
  content: Buffer
  /** The value of the `ETag` header. */
  tag: string
}

export function readAssets(): Promise<Asset[]> {
  return Promise.all(
    Object.entries(TYPES).map(async ([name, type]) => {
      const content = await readFile(`${DIRECTORY}/${name}`)
      const tag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
      return { name, type, content, tag }
    }),
  )
}

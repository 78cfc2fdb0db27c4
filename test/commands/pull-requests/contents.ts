/** Files of every kind that git knows, for work trees. */
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export type Content = string | Buffer | { link: string } | { executable: string }

export async function writeContents(dir: string, files: Record<string, Content>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const file = join(dir, path)
    await mkdir(dirname(file), { recursive: true })
    if (typeof content === 'string' || Buffer.isBuffer(content)) await writeFile(file, content)
    else if ('link' in content) await symlink(content.link, file)
    else {
      await writeFile(file, content.executable)
      await chmod(file, 0o755)
    }
  }
}

/** Parts of documents that tests generate, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** Checks that the part of the document equals `expected`. With UPDATE_DOCS=1, writes it instead. */
export async function checkGeneratedPart(
  t: Pick<Test, 'equal'>,
  document: string,
  name: string,
  expected: string,
): Promise<void> {
  const file = fileURLToPath(new URL(`../${document}`, import.meta.url))
  const text = await readFile(file, 'utf8')
  const begin = `<!-- ${name}: begin -->\n`
  const end = `<!-- ${name}: end -->`
  const [before = '', rest = ''] = text.split(begin)
  const [part, after = ''] = rest.split(end)
  if (process.env.UPDATE_DOCS === '1') await writeFile(file, `${before}${begin}${expected}${end}${after}`)
  else t.equal(part, expected, `${document}: UPDATE_DOCS=1 writes the part "${name}" again`)
}

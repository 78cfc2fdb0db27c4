/** The texts of licenses, by their names in the list of SPDX. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Type } from 'typebox'
import { checkOf } from '../../../storage/checked-json.ts'

const isLicense = checkOf(Type.Object({ licenseText: Type.String() }))
const { resolve } = createRequire(import.meta.url)

/** Names of files, and nothing else. */
const NAME = /^[a-z0-9][-+.a-z0-9]{0,99}$/i

/** Placeholders in licenses for the year and the copyright holders. */
const HOLDER = /<year> <(?:copyright holders?|owner)>/g

/** The text of a license, for work of this year and holder; undefined when SPDX knows no license of that name. */
export async function licenseText(
  name: string,
  { year, holder }: { year: number; holder: string },
): Promise<string | undefined> {
  if (!NAME.test(name)) return undefined
  let path: string
  try {
    path = resolve(`spdx-license-list/licenses/${name}.json`)
  } catch {
    return undefined
  }
  const license: unknown = JSON.parse(await readFile(path, 'utf8'))
  if (!isLicense(license)) return undefined
  return `${license.licenseText.replace(HOLDER, () => `${year} ${holder}`).trim()}\n`
}

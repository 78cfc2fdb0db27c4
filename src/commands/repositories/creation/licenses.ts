/** Reads texts of licenses by their SPDX names. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Type } from 'typebox'
import { checkOf } from '../../../storage/checked-json.ts'

const isLicense = checkOf(Type.Object({ licenseText: Type.String() }))
const { resolve } = createRequire(import.meta.url)

/** Matches SPDX names that are safe as file names. */
const NAME = /^[a-z0-9][-+.a-z0-9]{0,99}$/i

/** Matches the placeholders for the year and the copyright holder. */
const HOLDER = /<year> <(?:copyright holders?|owner)>/g

/** Returns the text of a license with this year and holder; undefined for a name unknown to SPDX. */
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

/** Lines of CSV (RFC 4180), safe to open in spreadsheets. */

export const CSV = 'text/csv'

/** Spreadsheets run a field that begins like this as a formula. */
const FORMULA = /^[=+\-@\t\r]/

type Field = string | number | boolean | null

/** Returns a line with its end. Texts that look like formulas get an apostrophe; null is an empty field. */
export const csvLine = (fields: readonly Field[]): string => `${fields.map(csvField).join()}\r\n`

function csvField(field: Field): string {
  if (typeof field !== 'string') return field === null ? '' : `${field}`
  const text = FORMULA.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Removes values that mean "not set" from bodies. Typed clients send null for each unset field, and a list with one empty
 * name for an empty list.
 */

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The alternatives of a schema; the schema itself without any. */
const alternatives = (schema: unknown): Record<string, unknown>[] => {
  if (!isObject(schema)) return []
  return Array.isArray(schema.anyOf) ? schema.anyOf.flatMap(alternatives) : [schema]
}

/** Whether null is a valid value. A schema without a type allows everything. */
const takesNull = (schema: unknown) =>
  alternatives(schema).some(
    ({ type, ...rest }) => type === 'null' || (type === undefined && !('enum' in rest)),
  )

/**
 * Removes fields that are null, and empty names in lists of texts: both mean absent. A null stays where the schema
 * allows it.
 */
export function withoutEmpty(schema: unknown, value: unknown): unknown {
  const schemas = alternatives(schema)
  if (Array.isArray(value)) {
    const items = schemas.map((one) => one.items).find((one) => one !== undefined)
    if (items === undefined) return value
    const areTexts = alternatives(items).some(({ type }) => type === 'string')
    return (areTexts ? value.filter((item) => item !== '') : value).map((item) => withoutEmpty(items, item))
  }
  if (!isObject(value)) return value
  const properties = schemas.map((one) => one.properties).find(isObject)
  if (properties === undefined) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, field]) => {
      const inner = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (inner === undefined) return [[name, field]]
      return field === null && !takesNull(inner) ? [] : [[name, withoutEmpty(inner, field)]]
    }),
  )
}

/** Whether a value is a default. Typed clients of later versions send one for each unset field. */
const isDefault = (value: unknown) =>
  value === null ||
  value === '' ||
  value === false ||
  value === 0 ||
  (typeof value === 'object' && Object.keys(value).length === 0)

/** Returns the unknown non-empty fields of a body, and the fields of its schema. */
export function unknownFields(schema: unknown, value: unknown): { unknown: string[]; known: string[] } {
  const properties = alternatives(schema)
    .map((one) => one.properties)
    .find(isObject)
  if (properties === undefined || !isObject(value)) return { unknown: [], known: [] }
  const known = Object.keys(properties)
  const unknown = Object.entries(value).flatMap(([name, field]) =>
    known.includes(name) || isDefault(field) ? [] : [name],
  )
  return { unknown, known }
}

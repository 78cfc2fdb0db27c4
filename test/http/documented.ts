/** The API's documentation, as tests read it, and whether it allows an answer or a value. */
import { Ajv } from 'ajv'

export type Method = 'get' | 'post' | 'patch' | 'put' | 'delete'
type Content = Record<string, { schema: object }>

export interface Operation {
  parameters?: { name: string; in: string; required?: boolean; schema: object }[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}

export interface Documentation {
  paths: Record<string, Partial<Record<Method, Operation>>>
  components: object
}

export interface Answer {
  status: number
  /** The media type, without parameters; empty when the answer has none. */
  type: string
  text: string
}

const JSON_TYPE = 'application/json'

/** The schema with additional properties forbidden in all objects that don't allow them explicitly. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]))
  return 'properties' in inner ? { additionalProperties: false, ...inner } : inner
}

/** All operations, each with its name: `get /api/v1/user`. */
export function operationsOf({ paths }: Documentation) {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      name: `${method} ${path}`,
      method,
      path,
      operation,
    })),
  )
}

export function checksOf(documentation: Documentation) {
  const ajv = new Ajv({ strict: false, allErrors: true, formats: { binary: true } })
  const compiled = new Map<object, ReturnType<typeof ajv.compile>>()
  const components = closed(documentation.components)

  /** What is wrong with a value; undefined when the schema allows it. */
  function problemWith(schema: object, value: unknown, known = schema): string | undefined {
    const validate = compiled.get(known) ?? ajv.compile({ ...schema, components })
    compiled.set(known, validate)
    return validate(value) ? undefined : JSON.stringify(validate.errors?.slice(0, 5))
  }

  /** Why the documentation does not allow this answer: its status, its media type, or what is in its JSON. */
  function problemIn(operation: Operation, { status, type, text }: Answer): string | undefined {
    const documented = operation.responses[status] ?? operation.responses.default
    if (documented === undefined) return 'its status is not documented'
    const { content } = documented
    if (content === undefined) return text === '' ? undefined : 'a body is not documented'
    const media = content[type] ?? content['*/*']
    if (media === undefined) return `its media type "${type}" is not documented`
    if (type !== JSON_TYPE) return undefined
    return problemWith(Object(closed(media.schema)), JSON.parse(text), media.schema)
  }

  return { problemIn, allows: (schema: object, value: unknown) => problemWith(schema, value) === undefined }
}

/** The API's documentation, as tests read it, and whether it allows an answer or a value. */
import { Check, Errors } from 'typebox/schema'
import { withoutEmpty } from '../../src/http/bodies/empty-fields.ts'

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

/**
 * The schema in JSON Schema, which has no `nullable`. `isClosed`: additional properties are forbidden in all objects that
 * don't allow them explicitly.
 */
function readable(schema: unknown, isClosed: boolean): unknown {
  if (Array.isArray(schema)) return schema.map((part) => readable(part, isClosed))
  if (typeof schema !== 'object' || schema === null) return schema
  const { nullable, ...rest }: Record<string, unknown> = { ...schema }
  const inner = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [key, readable(value, isClosed)]),
  )
  const whole = isClosed && 'properties' in inner ? { additionalProperties: false, ...inner } : inner
  return nullable === true ? { anyOf: [whole, { type: 'null' }] } : whole
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
  const components = readable(documentation.components, true)
  const known = { open: new Map<object, object>(), closed: new Map<object, object>() }

  /**
   * What is wrong with a value; undefined when the schema allows it. Schemas are not compiled: few values of each are
   * checked.
   */
  function problemWith(schema: object, value: unknown, kind: keyof typeof known): string | undefined {
    const own = known[kind].get(schema)
    const whole = own ?? { ...Object(readable(schema, kind === 'closed')), components }
    known[kind].set(schema, whole)
    if (Check(whole, value)) return undefined
    const [, errors] = Errors(whole, value)
    return JSON.stringify(errors.slice(0, 5))
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
    return problemWith(media.schema, JSON.parse(text), 'closed')
  }

  return {
    problemIn,
    /** Whether a request may have this value. What it has without saying anything does not count. */
    allows: (schema: object, value: unknown) =>
      problemWith(schema, withoutEmpty(readable(schema, false), value), 'open') === undefined,
  }
}

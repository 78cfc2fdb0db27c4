/** Reads the API's documentation for tests, and checks answers and values against it. */
import { Check, Errors } from 'typebox/schema'
import { OPERATIONS } from '../../src/api/documentation/operation-table.ts'
import { COMMON_ANSWER, COMMON_STATUSES } from '../../src/http/answers/error-answers.ts'
import { withoutEmpty } from '../../src/http/bodies/empty-fields.ts'

export type Method = 'get' | 'post' | 'patch' | 'put' | 'delete'
type Content = Record<string, { schema: object }>

export interface Operation {
  operationId: string
  summary: string
  tags: string[]
  security?: object[]
  parameters?: { name: string; in: string; required?: boolean; schema: object }[]
  requestBody?: { required?: boolean; content: Content }
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

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the value with its references resolved. An error's schema stays a reference. */
function resolved(value: unknown, components: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => resolved(one, components))
  if (!isObject(value)) return value
  if (typeof value.$ref === 'string' && value.$ref !== '#/components/schemas/Error') {
    const named = value.$ref
      .split('/')
      .slice(2)
      .reduce<unknown>((from, name) => (isObject(from) ? from[name] : undefined), components)
    return resolved(
      { ...Object(named), ...(value.description !== undefined && { description: value.description }) },
      components,
    )
  }
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolved(one, components)]))
}

/** Answers by status: each common status by itself instead of the `default` for all of them. */
function byStatus({ default: common, ...responses }: Record<string, unknown>): object {
  if (!isObject(common) || common.description !== COMMON_ANSWER.description) {
    return common === undefined ? responses : { ...responses, default: common }
  }
  return { ...Object.fromEntries(COMMON_STATUSES.map((status) => [status, common])), ...responses }
}

/**
 * Parses the API's documentation: each operation with its references resolved, by the path of its route. `{*}` is the rest
 * of a path.
 */
export function readDocumentation(text: string): Documentation {
  const { paths, components }: { paths: Record<string, Record<string, unknown>>; components: object } =
    JSON.parse(text)
  const whole = Object.entries(paths).map(([path, { parameters: shared = [], ...operations }]) => {
    const [[method = '', first] = []] = Object.entries(operations)
    const wildcard = Object.keys(OPERATIONS)
      .flatMap((tag) => Object.entries(OPERATIONS[tag] ?? {}))
      .find(([, [id]]) => isObject(first) && first.operationId === id)?.[0]
    const rest = /\*(\w+)$/.exec(wildcard ?? '')?.[1]
    const own = Object.entries(operations).map(([name, operation]) => {
      const { parameters = [], ...others }: { parameters?: unknown } = Object(operation)
      const all: Record<string, unknown> = Object(
        resolved({ ...others, parameters: [shared, parameters].flat() }, components),
      )
      const renamed = [all.parameters]
        .flat()
        .map((one) =>
          isObject(one) && rest !== undefined && one.in === 'path' && one.name === rest
            ? { ...one, name: '*' }
            : one,
        )
      const responses = byStatus(Object(all.responses))
      return [name, { ...all, parameters: renamed, responses }]
    })
    if (method === '') throw new Error(`${path} has no operation`)
    return [rest === undefined ? path : path.replace(`{${rest}}`, '{*}'), Object.fromEntries(own)]
  })
  return { components, paths: Object.fromEntries(whole) }
}

const JSON_TYPE = 'application/json'

/**
 * Returns the schema as JSON Schema, which lacks `nullable`. `isClosed`: objects forbid additional properties unless they
 * allow them explicitly.
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

/** Returns all operations with their names, such as `get /api/v1/user`. */
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
   * Describes why a schema forbids a value; undefined when it allows the value. Schemas are not compiled, because each
   * checks only a few values.
   */
  function problemWith(schema: object, value: unknown, kind: keyof typeof known): string | undefined {
    const own = known[kind].get(schema)
    const whole = own ?? { ...Object(readable(schema, kind === 'closed')), components }
    known[kind].set(schema, whole)
    if (Check(whole, value)) return undefined
    const [, errors] = Errors(whole, value)
    return JSON.stringify(errors.slice(0, 5))
  }

  /** Describes why the documentation forbids an answer: its status, its media type or its JSON. */
  function problemIn(
    operation: Pick<Operation, 'responses'>,
    { status, type, text }: Answer,
  ): string | undefined {
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
    /** Whether a request may have this value, without its empty fields. */
    allows: (schema: object, value: unknown) =>
      problemWith(schema, withoutEmpty(readable(schema, false), value), 'open') === undefined,
  }
}

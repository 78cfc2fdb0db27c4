/** The description of the API, `/api/openapi.json`, made from the schemas of the routes when the first client asks for it. */
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import type { FastifySchema, RouteOptions } from 'fastify'
import {
  COMMON_ANSWER,
  COMMON_STATUSES,
  ERROR_COMPONENTS,
  ERROR_DESCRIPTIONS,
  errorAnswer,
  withErrorAnswers,
} from '../../http/answers/error-answers.ts'
import { EXAMPLES } from './example-table.ts'
import { FIELDS, NOUNS } from './field-table.ts'
import { admitsAnonymous, type OperationRow, operationOf, TAGS } from './operations.ts'
import { INTEGERS, PARAMETERS, TEXTS, VALUES } from './parameter-table.ts'

type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const mapValues = (object: Json, of: (value: unknown, key: string) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, of(value, key)]))

/** The part of a path before a parameter: `labels` in `/labels/:id`. */
const partBefore = (url: string, parameter: string): string | undefined =>
  new RegExp(`([\\w-]+)/(?:${parameter === '*' ? '\\*' : `:${parameter}\\b`})`).exec(url)?.[1]

/** The schema of parameters with descriptions, types and values for readers. `rest`: name of the rest of a path. */
function describedParameters(schema: unknown, url: string, operation: OperationRow): unknown {
  if (!isObject(schema) || !isObject(schema.properties)) return schema
  const nameOf = (name: string) => (name === '*' ? operation.rest : name)
  const properties = Object.entries(schema.properties).map(([given, value]) => {
    const name = nameOf(given)
    const described = isObject(value) ? value : {}
    const key = `${operation.id} ${name}`
    const isNumber =
      described.type === 'string' && INTEGERS.has(name) && !TEXTS.has(key) && operation.tag !== 'lfs'
    const values = VALUES[key]
    return [
      name,
      {
        ...described,
        ...(isNumber && { type: 'integer' }),
        ...(values && { enum: values }),
        description:
          described.description ?? PARAMETERS[`${partBefore(url, given)} ${name}`] ?? PARAMETERS[name],
      },
    ]
  })
  const required = Array.isArray(schema.required) ? schema.required.map(nameOf) : []
  return { type: 'object', properties: Object.fromEntries(properties), required }
}

/** Credentials of an operation with the scope that a token needs. `{}`: an anonymous caller may read public resources. */
function securityOf(method: string, url: string, config: object | undefined, id: string) {
  const {
    scope = 'repository',
    scopeLevel = method === 'GET' ? 'read' : 'write',
  }: {
    scope?: string | readonly string[]
    scopeLevel?: string
  } = config ?? {}
  const scopes = [scope].flat().map((category) => `${scopeLevel}:${category}`)
  return [{ token: scopes }, { basic: [] }, ...(admitsAnonymous(method, url, id) ? [{}] : [])]
}

const MOMENT_HEADER = 'Mergelog-At'

/** The schema of a read that can show the past, with the two ways to name a moment. */
function withMoment(schema: FastifySchema): FastifySchema {
  const query = isObject(schema.querystring) ? schema.querystring : { type: 'object' }
  const properties = isObject(query.properties) ? query.properties : {}
  const at = {
    type: 'string',
    description: 'Moment that the answer shows: a date, a date-time (RFC 3339), or `@` and a log position',
  }
  const header = { type: 'string', description: 'The same as the parameter `at`' }
  return {
    ...schema,
    querystring: { ...query, properties: { ...properties, at } },
    headers: { type: 'object', properties: { [MOMENT_HEADER]: header } },
    refusals: [...(schema.refusals ?? []), 'gone'],
  }
}

/** The components of the documentation that answers refer to. */
const HEADERS = {
  At: {
    description: 'Position and time of the last event in an answer of the past',
    schema: { type: 'string' },
  },
}

/** Whether a parameter of an operation is the header that names a moment. */
const isMoment = (parameter: unknown) => isObject(parameter) && parameter.name === MOMENT_HEADER

/** The schema of a route with what only readers need. `canShowPast`: whether a read, by its path, has a past. */
function describe(
  own: FastifySchema,
  url: string,
  route: RouteOptions,
  canShowPast: (url: string) => boolean,
): FastifySchema {
  const operation = operationOf(`${route.method}`, url)
  const schema = route.method === 'GET' && canShowPast(url) ? withMoment(own) : own
  return {
    ...withErrorAnswers(schema, route.method),
    ...(operation && {
      operationId: operation.id,
      summary: operation.summary,
      tags: [operation.tag],
      params: describedParameters(schema.params, url, operation),
      querystring: describedParameters(schema.querystring, url, operation),
      security: schema.security ?? securityOf(`${route.method}`, url, route.config, operation.id),
    }),
  }
}

/** A description of an answer whose schema lacks one. */
function answerDescription(response: Json, status: string): string {
  const { content } = response
  const [media] = isObject(content) ? Object.values(content) : []
  const schema = isObject(media) && isObject(media.schema) ? media.schema : undefined
  if (schema === undefined) return 'No content'
  if (isObject(schema.items) && typeof schema.items.$ref === 'string')
    return `List of ${nameIn(schema.items.$ref)}`
  if (typeof schema.$ref === 'string') return nameIn(schema.$ref)
  return status === '201' ? 'Created' : 'Success'
}

const nameIn = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

/** A schema without the keywords of this server's validation. */
const withoutOwnKeywords = (schema: Json): Json =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => !key.startsWith('x-')))

/** The answers of errors: the common ones, and the others by status. */
const ERROR_ANSWERS: Json = {
  common: COMMON_ANSWER,
  ...Object.fromEntries(
    Object.keys(ERROR_DESCRIPTIONS)
      .filter((status) => !COMMON_STATUSES.includes(Number(status)))
      .map((status) => [status, errorAnswer(Number(status))]),
  ),
}
const ERROR_NAMES = new Map(Object.entries(ERROR_ANSWERS).map(([name, one]) => [JSON.stringify(one), name]))

/** Moves titled schemas, parameters and errors to the components, and describes fields, bodies and answers. */
function withComponents(openapiObject: { paths?: object; components?: { schemas?: object } }) {
  const schemas = new Map<string, { text: string; schema: Json }>()

  /** @throws Error when two different schemas have the same title */
  function referTo(title: string, schema: Json): Json {
    const text = JSON.stringify(schema)
    const known = schemas.get(title)
    if (known !== undefined && known.text !== text) throw new Error(`two schemas are titled ${title}`)
    schemas.set(title, { text, schema })
    return { $ref: `#/components/schemas/${title}` }
  }

  /** `place`: the component or the operation, and the fields, that the value is in. */
  function hoist(value: unknown, place = ''): unknown {
    if (Array.isArray(value)) return value.map((one) => hoist(one, place))
    if (!isObject(value)) return value
    const { title, properties, ...others } = withoutOwnKeywords(value)
    if (!isObject(properties)) return mapValues(withoutOwnKeywords(value), (one) => hoist(one, place))
    const here = typeof title === 'string' ? title : place
    const fields = mapValues(properties, (field, name) => hoist(field, `${here}.${name}`))
    const schema = described({ ...mapValues(others, (one) => hoist(one, here)), properties: fields }, here)
    return typeof title === 'string' ? referTo(title, schema) : schema
  }

  const parameters = new Map<string, { name: string; parameter: Json }>()

  /** Refers to a parameter by its name, or by its name and a number when others have the name. */
  function parameterRef(parameter: unknown): unknown {
    if (!isObject(parameter)) return parameter
    const { required, ...optional } = parameter
    const shown: Json = required === false ? optional : parameter
    const text = JSON.stringify(shown)
    const same = [...parameters.values()].filter((known) => known.parameter.name === parameter.name)
    const name =
      parameters.get(text)?.name ?? `${parameter.name}${same.length === 0 ? '' : `.${same.length + 1}`}`
    parameters.set(text, { name, parameter: shown })
    return { $ref: `#/components/parameters/${name}` }
  }

  /** `headers`: of answers to a success. */
  const answers = (responses: Json, headers?: Json) =>
    mapValues(responses, (response, status) => {
      const error = ERROR_NAMES.get(JSON.stringify(response))
      if (error !== undefined) return { $ref: `#/components/responses/${error}` }
      if (!isObject(response)) return response
      const shown = { ...response, ...(status.startsWith('2') && headers && { headers }) }
      if (response.description !== 'Default Response') return shown
      return { ...shown, description: answerDescription(response, status) }
    })

  function operationIn(operation: unknown): Json {
    const found = hoist(operation, isObject(operation) ? `${operation.operationId}` : '')
    if (!isObject(found)) return {}
    const { requestBody, responses } = found
    const parameters = [found.parameters ?? []].flat()
    const headers = parameters.some(isMoment)
      ? { [MOMENT_HEADER]: { $ref: '#/components/headers/At' } }
      : undefined
    return {
      ...found,
      parameters: parameters.map(parameterRef),
      ...(isObject(requestBody) && { requestBody: describedBody(requestBody, found.operationId) }),
      responses: answers(isObject(responses) ? responses : {}, headers),
    }
  }

  const paths = mapValues({ ...openapiObject.paths }, (item) =>
    sharingParameters(mapValues(isObject(item) ? item : {}, operationIn)),
  )
  return {
    ...openapiObject,
    tags: TAGS,
    paths,
    components: {
      ...openapiObject.components,
      schemas: {
        Error: hoist(ERROR_COMPONENTS.Error),
        ...Object.fromEntries([...schemas].sort().map(([name, { schema }]) => [name, schema])),
      },
      headers: HEADERS,
      parameters: Object.fromEntries([...parameters.values()].map((one) => [one.name, one.parameter])),
      responses: ERROR_ANSWERS,
    },
  }
}

/** The schema of an object at a place, with the descriptions of its fields and its example. */
function described(schema: Json & { properties: Json }, place: string): Json {
  const properties = mapValues(schema.properties, (field, name) => {
    if (!isObject(field)) return field
    const values = VALUES[`${place} ${name}`]
    const text = field.description ?? FIELDS[`${place}.${name}`] ?? FIELDS[name]
    const description = typeof text === 'string' ? text.replace('{}', () => NOUNS[place] ?? '{}') : text
    return { ...field, ...(values && { enum: values }), ...(description !== undefined && { description }) }
  })
  const example = EXAMPLES[place]
  return { ...schema, properties, ...(example !== undefined && { examples: [example] }) }
}

/** The operations of a path; parameters that all of them have stand once, beside them. */
function sharingParameters(operations: Json): Json {
  const lists = Object.values(operations).flatMap((operation) =>
    isObject(operation) && Array.isArray(operation.parameters) ? [operation.parameters] : [],
  )
  const textOf = (parameter: unknown) => JSON.stringify(parameter)
  const [first = [], ...others] = lists.map((list) => list.map(textOf))
  const shared = new Set(first.filter((text) => others.every((list) => list.includes(text))))
  const own = mapValues(operations, (operation) => {
    if (!isObject(operation) || !Array.isArray(operation.parameters)) return operation
    const { parameters, ...rest } = operation
    const left = parameters.filter((parameter) => !shared.has(textOf(parameter)))
    return left.length === 0 ? rest : { ...rest, parameters: left }
  })
  return { ...(shared.size > 0 && { parameters: [...shared].map((text) => JSON.parse(text)) }), ...own }
}

/** A body with whether it is required. A text has the example of its operation; the examples of objects are in their schemas. */
function describedBody(body: Json, operationId: unknown): Json {
  const { required, ...rest } = body
  const example = EXAMPLES[`${operationId}`]
  const content =
    example === undefined || !isObject(body.content)
      ? body.content
      : mapValues(body.content, (media) => (isObject(media) ? { ...media, example } : media))
  return { ...rest, content, ...(!allowsNull(body) && { required: required ?? true }) }
}

/** Whether a body may be absent: its schema has null. */
function allowsNull({ content }: Json): boolean {
  const [media] = isObject(content) ? Object.values(content) : []
  const schema = isObject(media) && isObject(media.schema) ? media.schema : {}
  const alternatives = Array.isArray(schema.anyOf) ? schema.anyOf : [schema]
  return alternatives.some((one) => isObject(one) && [one.type].flat().includes('null'))
}

/** The options of the plugin that collects the schemas. `base`: path of the public URL. */
export const documentation = (
  base: string,
  canShowPast: (url: string) => boolean,
): FastifyDynamicSwaggerOptions => ({
  openapi: {
    openapi: '3.1.0',
    info: {
      title: 'Mergelog',
      version: '1',
      description:
        'Gitea-compatible API of Mergelog. Every change is an event: `history` shows the events, `replay` earlier states, `upgrade` the upgrade plans of a chain.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: base === '' ? '/' : base }],
    components: {
      schemas: ERROR_COMPONENTS,
      securitySchemes: {
        basic: {
          type: 'http',
          scheme: 'basic',
          description: 'Login and password, or login and access token',
        },
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'Access token; the operation names the scopes it needs',
        },
      },
    },
  },
  transform: ({ schema, url, route }) => ({
    url: url.replace(/\*$/, () => `:${operationOf(`${route.method}`, url)?.rest ?? 'rest'}`),
    schema: schema && describe(schema, url, route, canShowPast),
  }),
  transformObject: (document) =>
    'openapiObject' in document
      ? Object.assign(document.openapiObject, withComponents(document.openapiObject))
      : document.swaggerObject,
})

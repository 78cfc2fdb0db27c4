/** The description of the API, `/api/openapi.json`, made from the schemas of the routes when the first client asks for it. */
import { STATUS_CODES } from 'node:http'
import type { FastifyDynamicSwaggerOptions, SwaggerTransformObject } from '@fastify/swagger'
import type { FastifySchema, RouteOptions } from 'fastify'
import type { ScopeCategory, ScopeLevel } from '../../auth/token-scopes.ts'
import { ERROR_COMPONENTS, ERROR_DESCRIPTIONS, errorAnswer, withErrorAnswers } from '../answers/error-answers.ts'
import { FIELDS } from './field-table.ts'
import { type OperationRow, operationOf, PUBLIC_TAGS, TAGS } from './operations.ts'
import { INTEGERS, PARAMETERS, VALUES } from './parameter-table.ts'

type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const mapValues = (object: Json, of: (value: unknown, key: string) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, of(value, key)]))

/** The schema of parameters with descriptions, types and values for readers. `rest`: name of the rest of a path. */
function describedParameters(schema: unknown, operation: OperationRow): unknown {
  if (!isObject(schema) || !isObject(schema.properties)) return schema
  const nameOf = (name: string) => (name === '*' ? operation.rest : name)
  const properties = Object.entries(schema.properties).map(([given, value]) => {
    const name = nameOf(given)
    const described = isObject(value) ? value : {}
    const isNumber = described.type === 'string' && INTEGERS.has(name)
    const values = VALUES[`${operation.id} ${name}`]
    return [
      name,
      {
        ...described,
        ...(isNumber && { type: 'integer' }),
        ...(values && { enum: values }),
        description: described.description ?? PARAMETERS[name],
      },
    ]
  })
  const required = Array.isArray(schema.required) ? schema.required.map(nameOf) : []
  return { type: 'object', properties: Object.fromEntries(properties), required }
}

/** Credentials of an operation with the scope that a token needs. Anonymous reading depends on the resource. */
function securityOf(method: string, config: object | undefined, { id, tag }: OperationRow) {
  const { scope = 'repository', scopeLevel = method === 'GET' ? 'read' : 'write' }: {
    scope?: ScopeCategory | readonly ScopeCategory[]
    scopeLevel?: ScopeLevel
  } = config ?? {}
  const scopes = [scope].flat().map((category) => `${scopeLevel}:${category}`)
  const isPublic = method === 'GET' && PUBLIC_TAGS.has(tag) && !id.includes('Current')
  return [{ token: scopes }, { basic: [] }, ...(isPublic ? [{}] : [])]
}

/** The schema of a route with what only readers need. */
function describe(schema: FastifySchema, url: string, route: RouteOptions): FastifySchema {
  const operation = operationOf(`${route.method}`, url)
  return {
    ...withErrorAnswers(schema, route.method),
    ...(operation && {
      operationId: operation.id,
      summary: operation.summary,
      tags: [operation.tag],
      params: describedParameters(schema.params, operation),
      querystring: describedParameters(schema.querystring, operation),
      security: schema.security ?? securityOf(`${route.method}`, route.config, operation),
    }),
  }
}

const componentName = (status: number) => (STATUS_CODES[status] ?? `${status}`).replaceAll(/[^A-Za-z]/g, '')

/** What an answer is, for those that do not say it. */
function answerDescription(response: Json, status: string): string {
  const { content } = response
  const [media] = isObject(content) ? Object.values(content) : []
  const schema = isObject(media) && isObject(media.schema) ? media.schema : undefined
  if (schema === undefined) return 'Success, without a body'
  if (isObject(schema.items) && typeof schema.items.$ref === 'string') return `List of ${nameIn(schema.items.$ref)}`
  if (typeof schema.$ref === 'string') return nameIn(schema.$ref)
  return status === '201' ? 'Created' : 'Success'
}

const nameIn = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

/** Moves titled schemas to the components, shared errors too, and describes fields, bodies and answers. */
const withComponents: SwaggerTransformObject = (document) => {
  if (!('openapiObject' in document)) return document.swaggerObject
  const { openapiObject } = document
  const schemas = new Map<string, { text: string; schema: Json }>()

  /** @throws Error when two different schemas have the same title */
  function referTo(title: string, schema: Json): Json {
    const text = JSON.stringify(schema)
    const known = schemas.get(title)
    if (known !== undefined && known.text !== text) throw new Error(`two schemas are titled ${title}`)
    schemas.set(title, { text, schema })
    return { $ref: `#/components/schemas/${title}` }
  }

  function hoist(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(hoist)
    if (!isObject(value)) return value
    const { title, ...inner } = mapValues(value, hoist)
    if (typeof title !== 'string' || !isObject(inner.properties)) return title === undefined ? inner : { title, ...inner }
    return referTo(title, described(inner, title))
  }

  const describedDeep = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(describedDeep)
    if (!isObject(value)) return value
    return described(mapValues(value, describedDeep))
  }

  const errors = new Map(
    Object.keys(ERROR_DESCRIPTIONS).map((status) => [JSON.stringify(errorAnswer(Number(status))), Number(status)]),
  )
  const answers = (responses: Json) =>
    mapValues(responses, (response, status) => {
      const error = errors.get(JSON.stringify(response))
      if (error !== undefined) return { $ref: `#/components/responses/${componentName(error)}` }
      if (!isObject(response) || response.description !== 'Default Response') return response
      return { ...response, description: answerDescription(response, status) }
    })

  const paths = mapValues(openapiObject.paths ?? {}, (item) =>
    mapValues(isObject(item) ? item : {}, (operation) => {
      const found = describedDeep(hoist(operation))
      if (!isObject(found)) return found
      const { requestBody, responses } = found
      return {
        ...found,
        ...(isObject(requestBody) && { requestBody: { ...requestBody, required: !allowsNull(requestBody) } }),
        responses: answers(isObject(responses) ? responses : {}),
      }
    }),
  )
  return {
    ...openapiObject,
    tags: TAGS,
    paths,
    components: {
      ...openapiObject.components,
      schemas: {
        ...openapiObject.components?.schemas,
        ...Object.fromEntries([...schemas].sort().map(([name, { schema }]) => [name, schema])),
      },
      responses: Object.fromEntries([...errors.values()].map((status) => [componentName(status), errorAnswer(status)])),
    },
  }
}

/** The schema of an object whose fields all have a description. */
function described(schema: Json, title?: string): Json {
  if (!isObject(schema.properties) || schema.type !== 'object') return schema
  const properties = mapValues(schema.properties, (field, name) => {
    if (!isObject(field) || typeof field.description === 'string') return field
    const description = FIELDS[`${title}.${name}`] ?? FIELDS[name]
    return description === undefined ? field : { ...field, description }
  })
  return { ...schema, properties }
}

/** Whether a body may be absent: its schema has null. */
function allowsNull({ content }: Json): boolean {
  const [media] = isObject(content) ? Object.values(content) : []
  const schema = isObject(media) && isObject(media.schema) ? media.schema : {}
  const alternatives = Array.isArray(schema.anyOf) ? schema.anyOf : [schema]
  return alternatives.some((one) => isObject(one) && [one.type].flat().includes('null'))
}

/** The options of the plugin that collects the schemas. `base`: path of the public URL. */
export const documentation = (base: string): FastifyDynamicSwaggerOptions => ({
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
        basic: { type: 'http', scheme: 'basic', description: 'Login and password, or login and access token' },
        token: { type: 'http', scheme: 'bearer', description: 'Access token; the operation names the scopes it needs' },
      },
    },
  },
  transform: ({ schema, url, route }) => ({
    url: url.replace(/\*$/, () => `:${operationOf(`${route.method}`, url)?.rest ?? 'rest'}`),
    schema: schema && describe(schema, url, route),
  }),
  transformObject: withComponents,
})

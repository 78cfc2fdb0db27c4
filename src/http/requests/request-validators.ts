/** The validators of requests, compiled at their first request: compiling all would take most of the startup. */
import { Ajv, type AnySchema, type ErrorObject, str, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify'
import { unknownFields, withoutEmpty } from '../bodies/empty-fields.ts'

/** Schema keyword with our own message for an invalid value. In the schema of an item, it describes the list. */
const PROBLEM = 'x-problem'

/**
 * No coercion: "1" is not 1. `addUsedSchema: false`: schemas have no ids. All servers of a process share the compiled
 * schemas.
 */
const ajv = new Ajv({
  // Our own schemas need no validation: compiling the meta schema would take 0.1 s at startup.
  meta: false,
  validateSchema: false,
  coerceTypes: false,
  useDefaults: true,
  removeAdditional: false,
  allErrors: false,
  addUsedSchema: false,
  verbose: true,
  keywords: [PROBLEM],
})

/** Schema keyword: maximum size of a text as JSON, in bytes. A character takes up to six. */
export const MAX_JSON_BYTES = 'x-max-json-bytes'

ajv.addKeyword({
  keyword: MAX_JSON_BYTES,
  type: 'string',
  schemaType: 'number',
  validate: (most: number, text: string) =>
    // The first comparison is cheap, and enough for most texts.
    6 * text.length <= most || Buffer.byteLength(JSON.stringify(text)) - '""'.length <= most,
  error: { message: ({ schema }) => str`must NOT have more than ${schema} bytes` },
})

/** The validator of a schema. Removes unset values from a body first, and refuses unknown fields. */
export const validatorOf: FastifySchemaCompiler<AnySchema> = ({ schema, httpPart, url = '' }) => {
  const check = lazyCheck(schema)
  if (httpPart !== 'body') return check
  return (body: unknown) => {
    const value = withoutEmpty(schema, body)
    const { unknown, known } = url.startsWith('/api/') ? unknownFields(schema, value) : NOTHING_UNKNOWN
    if (unknown.length > 0) {
      return { error: unknown.slice(0, MAX_UNKNOWN_NAMED).map((name) => unknownField(name, known)) }
    }
    if (check(value)) return { value }
    return { error: body === null ? [NO_BODY] : (check.errors ?? []).map(inOurWords) }
  }
}

interface Check {
  (value: unknown): boolean
  /** The errors in the last value. */
  errors?: ErrorObject[] | null
}

/** Checks by a schema, which is compiled at the first use: that takes milliseconds. */
function lazyCheck(schema: AnySchema): Check {
  let compiled: ValidateFunction | undefined
  const check: Check = (value) => {
    compiled ??= ajv.compile(schema)
    const isValid = compiled(value)
    check.errors = compiled.errors ?? null
    return isValid
  }
  return check
}

/** For Fastify, an absent body is null. */
const NO_BODY = {
  keyword: 'required',
  instancePath: '',
  schemaPath: '#',
  params: { missingProperty: 'body' },
}

/** Maximum number of unknown fields in an error. Each comes with the list of the known ones. */
const MAX_UNKNOWN_NAMED = 5

const NOTHING_UNKNOWN = { unknown: [], known: [] }

const unknownField = (name: string, known: readonly string[]) => ({
  keyword: 'additionalProperties',
  instancePath: '',
  schemaPath: '#',
  params: { additionalProperty: name },
  message: `is not known here; the fields are ${known.join(', ')}`,
})

function inOurWords(error: ErrorObject): ErrorObject {
  const message: unknown = error.parentSchema?.[PROBLEM]
  if (typeof message !== 'string') return error
  return { ...error, message, instancePath: error.instancePath.replace(/\/\d+$/, '') }
}

/** Without these two, Fastify loads its own compilers. The app sets `validatorOf` and `jsonAnswer` instead. */
export const unusedCompilers: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: {
    buildValidator: () => (schema: AnySchema) => ajv.compile(schema),
    buildSerializer: () => () => JSON.stringify,
  },
}

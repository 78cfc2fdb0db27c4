/** Derives hostile requests for an operation of the API's documentation from a seed. Equal seeds give equal requests. */
import { gzipSync } from 'node:zlib'
import type { Call } from '../auth/route-world.ts'
import type { Operation } from './documented.ts'
import { HOSTILE, VALUES } from './hostile-values.ts'

/** A request with its exact bytes; it is not encoded again. */
export interface RawRequest {
  path: string
  headers: Record<string, string>
  body?: Buffer
  /** The kind of oddity. */
  what: string
  /** The body's JSON, if the server must parse it as such. */
  json?: { value: unknown }
  /** The values of a repeated query parameter. */
  repeated?: { name: string; values: string[] }
}

/** Creates a request from a successful one. */
export type Change = (base: Base) => RawRequest

interface Base {
  /** As in the documentation: `/api/v1/repos/{owner}/{repo}`. */
  path: string
  call: Call
}

/** Returns a generator of numbers from 0 to 1, deterministic by its seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A seed for one operation, so that a new operation does not change the requests of the others. */
export function seedOf(seed: number, name: string): number {
  return [...name].reduce(
    (hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 0x01000193),
    0x811c9dc5 ^ seed,
  )
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const result = [...list]
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    const [a, b] = [result[i], result[j]]
    if (a !== undefined && b !== undefined) [result[i], result[j]] = [b, a]
  }
  return result
}

/** An unencoded part of a path or a query. `?` ends a path, so it would lead to another route. */
const PARTS = [
  ...HOSTILE.filter((value) => value !== '?' && value !== '.' && value !== '..'),
  '%c0%af',
  '\xff',
  'caf\xe9',
  '%u0041',
  '%00%ff%fe',
  '1%20',
  '+1',
  '01',
  '1.0',
  '0x1',
  '1e0',
  '%D9%A3',
  '2147483648',
  '9007199254740993',
  '-9223372036854775809',
  '1'.repeat(400),
  'MAIN',
  '%E2%84%AA',
  'a%2fb',
  'x'.repeat(8000),
]

const QUERY_VALUES = [
  ...PARTS,
  '',
  '%20',
  '2026-01-01',
  '9999-12-31T23:59:60Z',
  '0000-00-00T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '%2B275760-09-13T00:00:00.001Z',
  '2026-02-30T00:00:00Z',
  '2026-01-01T00:00:00%2B99:99',
  'all,all',
  '1,2,,x',
  'true',
  'a'.repeat(256),
]

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The schemas that a value may have. */
function alternatives(schema: unknown): Record<string, unknown>[] {
  if (!isObject(schema)) return []
  const { anyOf } = schema
  return Array.isArray(anyOf) ? anyOf.flatMap(alternatives) : [schema]
}

/** Values at and past each limit of a schema. */
function valuesAt(schema: unknown): unknown[] {
  return alternatives(schema).flatMap((one): unknown[] => {
    const { minLength, maxLength, minimum, maximum, maxItems, items, properties } = one
    const found: unknown[] = []
    if (Array.isArray(one.enum)) found.push(...one.enum, `${one.enum[0]}x`, `${one.enum[0]}`.toUpperCase())
    if (typeof minLength === 'number')
      found.push('x'.repeat(minLength), 'x'.repeat(Math.max(0, minLength - 1)))
    if (typeof maxLength === 'number') {
      found.push('x'.repeat(maxLength), 'x'.repeat(maxLength + 1), '💩'.repeat(maxLength))
      found.push(`${'x'.repeat(maxLength - 1)}\ud83d`, '\u0000'.repeat(maxLength), 'ﷺ'.repeat(maxLength))
    }
    for (const limit of [minimum, maximum]) {
      if (typeof limit === 'number') found.push(limit - 1, limit, limit + 1, limit + 0.5)
    }
    if (one.type === 'integer') found.push(2 ** 31, 2 ** 53, 2 ** 63, -(2 ** 63), 0.5, -0, '1')
    if (one.type === 'boolean') found.push(true, false, 0, 'true')
    if (one.type === 'array') {
      const inside = valuesAt(items)
      const member = inside[0] ?? 'x'
      found.push([], [null], [[]], [member, member], inside.slice(0, 20), Array(1000).fill(member))
      if (typeof maxItems === 'number')
        found.push(Array(maxItems).fill(member), Array(maxItems + 1).fill(member))
      found.push(...inside.map((value) => [value]))
    }
    if (isObject(properties)) {
      found.push({}, { __proto: 1 })
      for (const [name, inner] of Object.entries(properties)) {
        found.push(...valuesAt(inner).map((value) => ({ [name]: value })))
      }
    }
    return found
  })
}

/** Texts of JSON values that `JSON.stringify` does not write. */
const RAW_VALUES = [
  '1e999',
  '-0',
  '-',
  '01',
  '1.',
  'NaN',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u0000"',
  '"\\x"',
  '"\t"',
]
/** Whole hostile bodies. */
const RAW_BODIES = [
  '',
  ' ',
  'null',
  'true',
  '0',
  '""',
  '[]',
  '[{}]',
  '{',
  '}',
  '{"a":1,}',
  "{'a':1}",
  '{"__proto__":{"a":1}}',
  '{"constructor":{"prototype":{"a":1}}}',
  '{"toString":1,"hasOwnProperty":1,"then":1}',
  '[]'.repeat(2),
  `${'['.repeat(33)}${']'.repeat(33)}`,
  `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`,
  '\u0000',
  '\ufeff{}',
  '/**/{}',
]
const MEDIA_TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'multipart/form-data; boundary=',
  'multipart/form-data; boundary=xx',
  'application/json-patch+json',
  'application/vnd.api+json',
  'application/x-git-upload-pack-request',
  'application',
  'application/',
  '/',
  ';',
  '*/*',
  'application/json, text/plain',
  `application/json; ${'x'.repeat(2000)}`,
  'application/j\xe4son',
]
const JSON_TYPES = [
  'application/JSON',
  'application/json;charset=UTF-8',
  'application/json; charset="utf-8"; v=1',
]
/** Bytes of a text in other encodings. */
const ENCODINGS: Record<string, (text: string) => Buffer> = {
  'utf-16le': (text) => Buffer.from(`\ufeff${text}`, 'utf16le'),
  'utf-16': (text) => Buffer.from(text, 'utf16le').swap16(),
  'iso-8859-1': (text) => Buffer.from(text.replace('"', '"\xe4'), 'latin1'),
  'utf-8': (text) => Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0xff, 0xc3, 0x28, 0x7d])]),
  'utf-7': (text) => Buffer.from(text.replaceAll('"', '+ACI-')),
  'no-such-charset': (text) => Buffer.from(text),
}
const HEADERS: Record<string, string>[] = [
  { 'idempotency-key': '' },
  { 'idempotency-key': 'x'.repeat(255) },
  { 'idempotency-key': 'x'.repeat(256) },
  { 'idempotency-key': '\xff' },
  { 'x-http-method-override': 'DELETE' },
  { accept: 'application/xml' },
  { accept: '\xff;q=9' },
  { accept: `${'a/b,'.repeat(500)}` },
  { 'if-none-match': '*' },
  { 'if-none-match': `W/"${'x'.repeat(3000)}"` },
  { 'if-match': '"x"' },
  { 'if-modified-since': 'yesterday' },
  { range: 'bytes=5-2' },
  { range: 'bytes=0-0,1-1' },
  { range: `bytes=${'9'.repeat(30)}-` },
  { 'last-event-id': '\x01' },
  { origin: 'null' },
  { 'sec-fetch-site': 'cross-site' },
  { 'x-request-id': '\xff'.repeat(200) },
  { 'x-forwarded-for': '::1, x' },
  { expect: '200-maybe' },
]

/** Removes characters that the client's parser would refuse. */
const sendable = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.replaceAll('\x01', '\t')]))

/** Encodes the parts of the path and of the query. */
function pathOf({ path, call }: Base, odd: Record<string, string> = {}, query?: string): string {
  const filled = path.replaceAll(
    /\{(.+?)\}/g,
    (_, name: string) => odd[name] ?? encodeURI(`${call.path?.[name] ?? 'x'}`),
  )
  const text = [new URLSearchParams(call.query).toString(), query].filter(Boolean).join('&')
  return text === '' ? filled : `${filled}?${text}`
}

export function usual(base: Base): RawRequest {
  const { body, headers } = base.call
  const type = typeof body === 'object' ? { 'content-type': 'application/json' } : {}
  return {
    path: pathOf(base),
    headers: { ...type, ...headers },
    ...(body !== undefined && { body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) }),
    ...(typeof body === 'object' && { json: { value: body } }),
    what: 'nothing',
  }
}

/** Returns the request without this query parameter. */
const without = (base: Base, name: string): Base => {
  const query = Object.fromEntries(Object.entries(base.call.query ?? {}).filter(([key]) => key !== name))
  return { ...base, call: { ...base.call, query } }
}

const short = (value: unknown) => `${JSON.stringify(value) ?? value}`.slice(0, 80)

function ofJson(base: Base, what: string, text: string): RawRequest {
  const request = { ...usual(base), what, body: Buffer.from(text) }
  try {
    return { ...request, json: { value: JSON.parse(text) } }
  } catch {
    const { json, ...rest } = request
    return rest
  }
}

/** The hostile requests for each place of an operation: a parameter, a field, the body, the headers. */
function changesOf(path: string, operation: Operation): Change[][] {
  const named = [...path.matchAll(/\{(.+?)\}/g)].map(([, name = '']) => name)
  const inPath = named.map((name) =>
    PARTS.map(
      (part): Change =>
        (base) => ({
          ...usual(base),
          path: pathOf(base, { [name]: part }),
          what: `${name} in the path is ${short(part)}`,
        }),
    ),
  )
  const queried = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
  const inQuery = [...queried.map(({ name }) => name), '__proto__'].map((name) => [
    ...[
      ...QUERY_VALUES,
      ...queried
        .filter((one) => one.name === name)
        .flatMap(({ schema }) =>
          valuesAt(schema).map((value) => encodeURIComponent(`${value}`.replaceAll(/[\ud800-\udfff]/g, ''))),
        ),
    ].map(
      (value): Change =>
        (base) => ({
          ...usual(base),
          path: pathOf(without(base, name), {}, `${name}=${value}`),
          what: `${name} in the query is ${short(value)}`,
        }),
    ),
    ...[['a', 'b'], ['', ''], Array<string>(1001).fill('x')].map(
      (values): Change =>
        (base) => ({
          ...usual(base),
          path: pathOf(without(base, name), {}, values.map((value) => `${name}=${value}`).join('&')),
          what: `${name} is in the query ${values.length} times`,
          repeated: { name, values },
        }),
    ),
    ...[`${name}`, `${name}[]=a`, `${name}[a]=b`, `${name}%00=a`, `&&${name}==&=`].map(
      (query): Change =>
        (base) => ({ ...usual(base), path: pathOf(base, {}, query), what: `the query is ${query}` }),
    ),
  ])
  const headers = HEADERS.map(
    (odd): Change =>
      (base) => {
        const request = usual(base)
        return { ...request, headers: { ...request.headers, ...sendable(odd) }, what: short(odd) }
      },
  )
  return [...inPath, ...inQuery, headers, ...changesOfBody(operation)].filter((place) => place.length > 0)
}

function changesOfBody(operation: Operation): Change[][] {
  const schema: unknown = operation.requestBody?.content['application/json']?.schema
  if (schema === undefined) {
    // The operation takes another media type, or a form with a file.
    const bodies = [...RAW_BODIES, '--xx\r\n\r\n--xx--', '--xx', `--xx\r\n${'x'.repeat(20_000)}`]
    return [
      bodies.map(
        (body, i): Change =>
          (base) => {
            const type = i % 2 === 0 ? { 'content-type': 'application/json' } : {}
            const request = usual(base)
            return {
              ...request,
              headers: { ...request.headers, ...type },
              body: Buffer.from(body),
              what: `a body: ${short(body)}`,
            }
          },
      ),
    ]
  }
  const textOf = ({ call }: Base) => JSON.stringify(call.body ?? {})
  const fields = alternatives(schema).flatMap((one) =>
    isObject(one.properties) ? Object.entries(one.properties) : [],
  )
  const inFields = fields.map(([name, inner]) => [
    ...[...valuesAt(inner), ...VALUES].map(
      (value): Change =>
        (base) =>
          ofJson(
            base,
            `${name} is ${short(value)}`,
            JSON.stringify({ ...Object(base.call.body), [name]: value }),
          ),
    ),
    ...RAW_VALUES.map(
      (raw): Change =>
        (base) => {
          const text = JSON.stringify({ ...Object(base.call.body), [name]: '@' })
          return ofJson(
            base,
            `${name} is ${raw}`,
            text.replace('"@"', () => raw),
          )
        },
    ),
    (base: Base) => {
      const { [name]: _, ...others } = Object(base.call.body)
      return ofJson(base, `${name} is missing`, JSON.stringify(others))
    },
    // The last one of equal keys counts, as in JavaScript.
    (base: Base) =>
      ofJson(base, `${name} is there twice`, textOf(base).replace('{', `{"${name}":{},`).replace(',}', '}')),
    (base: Base) =>
      ofJson(
        base,
        `${name} is there twice`,
        textOf(base).replace(/\}$/, `,"${name}":[{}]}`).replace('{,', '{'),
      ),
  ])
  const typed =
    (type: string): Change =>
    (base) => {
      const { json, ...request } = usual(base)
      return {
        ...request,
        headers: { ...request.headers, 'content-type': type },
        what: `the body is ${short(type)}`,
      }
    }
  const encoded =
    (encoding: string, body: (text: string) => Buffer): Change =>
    (base) => {
      const { json, ...request } = usual(base)
      return {
        ...request,
        headers: { ...request.headers, 'content-encoding': encoding },
        body: body(textOf(base)),
        what: `${encoding} body`,
      }
    }
  const whole: Change[] = [
    ...RAW_BODIES.map(
      (text): Change =>
        (base) =>
          ofJson(base, `the body is ${short(text)}`, text),
    ),
    ...MEDIA_TYPES.map(typed),
    ...JSON_TYPES.map(
      (type): Change =>
        (base) => ({ ...typed(type)(base), json: { value: base.call.body } }),
    ),
    ...Object.entries(ENCODINGS).map(
      ([charset, encode]): Change =>
        (base) => ({ ...typed(`application/json; charset=${charset}`)(base), body: encode(textOf(base)) }),
    ),
    encoded('gzip', (text) => gzipSync(text)),
    encoded('gzip', () => Buffer.from([0x1f, 0x8b, 8, 0, 0xff, 0xff])),
    encoded('br', (text) => Buffer.from(text)),
    encoded('identity', (text) => Buffer.from(text)),
    (base) => ({ ...ofJson(base, 'the body is too large', `{"x":"${'x'.repeat(70_000)}"}`) }),
  ]
  return [...inFields, whole]
}

/**
 * Returns up to `count` hostile requests for an operation. They cover every parameter and field; the seed decides the
 * values and their order.
 */
export function hostileRequests(path: string, operation: Operation, seed: number, count: number): Change[] {
  const random = randomFrom(seed)
  const places = shuffled(changesOf(path, operation), random).map((place) => shuffled(place, random))
  const most = Math.max(0, ...places.map((place) => place.length))
  const inTurn = Array.from({ length: most }, (_, i) =>
    places.flatMap((place) => place.slice(i, i + 1)),
  ).flat()
  return inTurn.slice(0, count)
}

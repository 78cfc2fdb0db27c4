/** Loads the definitions in proto/ for the gRPC server. */
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AnyDefinition, fromJSON, load, type ServiceDefinition } from '@grpc/proto-loader'
import { projectFile } from '../storage/project-files.ts'

const PROTO = fileURLToPath(projectFile('proto'))

const SERVICE_FILES = [
  'sdk/upgrade/v1beta1/query.proto',
  'cosmos/upgrade/v1beta1/query.proto',
  'grpc/health/v1/health.proto',
]

/**
 * A FileDescriptorSet from `npx buf build proto --as-file-descriptor-set --exclude-source-info -o
 * proto/descriptors.binpb`. A test fails when it differs from proto/. Reflection needs it: the descriptors of
 * protobufjs lack imports, syntax and reservations, and clients refuse them.
 */
const COMPILED = join(PROTO, 'descriptors.binpb')

/** Message types that read only field 1 of any message, as bytes. */
const views = fromJSON({
  nested: {
    Many: { fields: { parts: { rule: 'repeated', type: 'bytes', id: 1 } } },
    One: { fields: { part: { type: 'bytes', id: 1 } } },
  },
})

function decoder(name: string): (message: Buffer) => object {
  const definition = views[name]
  if (definition === undefined || !('deserialize' in definition)) throw new Error(`no message ${name}`)
  const { deserialize } = definition
  if (typeof deserialize !== 'function') throw new Error(`${name} is not a message`)
  return deserialize
}

const decodeMany = decoder('Many')
const decodeOne = decoder('One')

/**
 * Returns the text in field 1 of a message; empty when the field is absent. protobufjs itself accepts malformed texts:
 * it replaces invalid UTF-8 by U+FFFD, and cuts a text whose length exceeds its message.
 *
 * @throws Error when the message or the text is malformed
 */
export function decodeText(message: Buffer): string {
  const part: unknown = Reflect.get(decodeOne(message), 'part')
  if (!Buffer.isBuffer(part)) return ''
  if (!isUtf8(part)) throw new Error('the text is not UTF-8')
  return part.toString('utf8')
}

function isService(definition: AnyDefinition | undefined): definition is ServiceDefinition {
  return definition !== undefined && !('format' in definition)
}

/** In messages, 64-bit integers are decimal strings, enums are names, and fields are named as in proto/. */
export async function loadDescriptors() {
  const definitions = await load(SERVICE_FILES, {
    includeDirs: [PROTO],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
  })
  const parts: unknown = Reflect.get(decodeMany(await readFile(COMPILED)), 'parts')
  if (!Array.isArray(parts)) throw new Error(`${COMPILED} is empty`)
  const fileDescriptorProtos = parts.filter((part) => Buffer.isBuffer(part))
  return {
    /** @throws Error when proto/ has no such service */
    service(name: string): ServiceDefinition {
      const definition = definitions[name]
      if (!isService(definition)) throw new Error(`${PROTO} has no service ${name}`)
      return definition
    },
    /** One FileDescriptorProto per file, in the shape that `ReflectionService` reads. */
    files: {
      all: { format: 'Protocol Buffer 3 EnumDescriptorProto', type: {}, fileDescriptorProtos },
    } as const,
  }
}

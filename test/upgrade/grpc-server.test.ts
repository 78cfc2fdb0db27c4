import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Client, credentials, Metadata, status } from '@grpc/grpc-js'
import descriptorPb from 'google-protobuf/google/protobuf/descriptor_pb.js'
import t from 'tap'
import { ConfigError } from '../../src/config/config.ts'
import { until } from '../until.ts'
import { answering, call, clientOf, QUERY, refused, serviceIn, started } from './grpc-client.ts'

const healthService = serviceIn('grpc/health/v1/health.proto', 'grpc.health.v1.Health')

const SERVICES = ['', 'sdk.upgrade.v1beta1.Query', 'cosmos.upgrade.v1beta1.Query']

function statusIn(message: unknown): string {
  return String(typeof message === 'object' && message !== null && Reflect.get(message, 'status'))
}

/** Calls Watch and returns its statuses one after the other. */
function watch(client: Client, service: string) {
  const method = healthService.Watch
  if (method === undefined) throw new Error('no Watch')
  const stream = client.makeServerStreamRequest(
    method.path,
    method.requestSerialize,
    method.responseDeserialize,
    { service },
  )
  stream.on('error', () => {})
  const statuses = stream[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await statuses.next()
    return done ? 'end' : statusIn(value)
  }
  return { next, cancel: () => stream.cancel() }
}

t.test(
  'health: Check and List report whether the server is ready, for the server and for each service',
  async (t) => {
    let ready = false
    const { server } = await started(t, { ready: () => ready })
    const client = clientOf(t, server.address)
    for (const expected of ['NOT_SERVING', 'SERVING', 'NOT_SERVING']) {
      ready = expected === 'SERVING'
      for (const service of SERVICES) {
        t.strictSame(await call(client, healthService, 'Check', { service }), { status: expected }, service)
      }
      t.strictSame(await call(client, healthService, 'List'), {
        statuses: Object.fromEntries(SERVICES.map((service) => [service, { status: expected }])),
      })
    }
    t.equal(
      (await refused(call(client, healthService, 'Check', { service: 'other' }))).code,
      status.NOT_FOUND,
    )
  },
)

t.test('health: Watch sends every change, and ends when the server stops', async (t) => {
  let ready = false
  const { server } = await started(t, { ready: () => ready })
  const client = clientOf(t, server.address)
  const watched = SERVICES.map((service) => watch(client, service))
  const unknown = watch(client, 'other')
  const all = () => Promise.all(watched.map(({ next }) => next()))
  t.strictSame(await all(), ['NOT_SERVING', 'NOT_SERVING', 'NOT_SERVING'])
  t.equal(await unknown.next(), 'SERVICE_UNKNOWN')
  ready = true
  t.strictSame(await all(), ['SERVING', 'SERVING', 'SERVING'])
  ready = false
  t.strictSame(await all(), ['NOT_SERVING', 'NOT_SERVING', 'NOT_SERVING'])
  ready = true
  t.strictSame(await all(), ['SERVING', 'SERVING', 'SERVING'])
  watched.pop()?.cancel()
  const stopped = server.stop()
  t.strictSame(await all(), ['NOT_SERVING', 'NOT_SERVING'])
  t.strictSame(await all(), ['end', 'end'])
  t.equal(await unknown.next(), 'end')
  await stopped
})

/** Sends reflection requests. Resolves to the responses in order. */
async function reflect(client: Client, version: string, requests: object[]): Promise<unknown[]> {
  const file = createRequire(import.meta.url).resolve(
    `@grpc/reflection/build/proto/grpc/reflection/${version}/reflection.proto`,
  )
  const method = serviceIn(file, `grpc.reflection.${version}.ServerReflection`).ServerReflectionInfo
  if (method === undefined) throw new Error('no ServerReflectionInfo')
  const stream = client.makeBidiStreamRequest(
    method.path,
    method.requestSerialize,
    method.responseDeserialize,
    new Metadata(),
  )
  for (const request of requests) stream.write(request)
  stream.end()
  return await Array.fromAsync(stream)
}

/** The file descriptors of a response, decoded by Google's own library. */
function filesIn(response: unknown): descriptorPb.FileDescriptorProto[] {
  const found: unknown = Reflect.get(Object(response), 'file_descriptor_response')
  const files: unknown = Reflect.get(Object(found), 'file_descriptor_proto')
  if (!Array.isArray(files)) throw new Error(`no files: ${JSON.stringify(response)}`)
  return files.map((bytes) => descriptorPb.FileDescriptorProto.deserializeBinary(bytes))
}

for (const version of ['v1', 'v1alpha']) {
  t.test(
    `reflection ${version}: a client without descriptors learns all services and their messages`,
    async (t) => {
      const { server } = await started(t)
      const client = clientOf(t, server.address)
      const [list] = await reflect(client, version, [{ list_services: '' }])
      t.match(list, {
        list_services_response: {
          service: [
            { name: 'cosmos.upgrade.v1beta1.Query' },
            { name: 'grpc.health.v1.Health' },
            { name: 'sdk.upgrade.v1beta1.Query' },
          ],
        },
      })
      for (const base of ['sdk', 'cosmos']) {
        const symbol = `${base}.upgrade.v1beta1.Query`
        const [found] = await reflect(client, version, [{ file_containing_symbol: symbol }])
        const [query, ...others] = filesIn(found)
        t.equal(query?.getName(), `${base}/upgrade/v1beta1/query.proto`)
        t.equal(query?.getSyntax(), 'proto3')
        const methods = query?.getServiceList()[0]?.getMethodList()
        t.strictSame(
          methods?.map((method) => [method.getName(), method.getOptions()?.getDeprecated() ?? false]),
          [
            ['CurrentPlan', false],
            ['AppliedPlan', false],
            ['UpgradedConsensusState', true],
            ['ModuleVersions', false],
            ['Authority', false],
          ],
        )
        const state = query
          ?.getMessageTypeList()
          .find((message) => message.getName() === 'QueryUpgradedConsensusStateResponse')
        t.strictSame(
          state?.getReservedRangeList().map((range) => range.toObject()),
          [{ start: 1, end: 2 }],
        )
        // Like a client: request imported files by name until all files are known.
        const known = new Map([query, ...others].map((file) => [file?.getName(), file]))
        for (const file of known.values()) {
          for (const file_by_filename of file?.getDependencyList() ?? []) {
            if (known.has(file_by_filename)) continue
            const [imported] = await reflect(client, version, [{ file_by_filename }])
            for (const one of filesIn(imported)) known.set(one.getName(), one)
          }
        }
        t.ok(known.has(`${base}/upgrade/v1beta1/upgrade.proto`))
        t.ok(known.has('google/api/annotations.proto'))
        t.ok(known.has('google/protobuf/timestamp.proto'))
      }
      const [missing] = await reflect(client, version, [{ file_containing_symbol: 'no.such.Thing' }])
      t.match(missing, { error_response: { error_code: status.NOT_FOUND } })
    },
  )
}

t.test('reflection: many requests are all answered, in order', async (t) => {
  const { server } = await started(t)
  const requests = Array.from({ length: 500 }, (_, n) => ({
    host: `${n}`,
    file_by_filename: 'google/protobuf/descriptor.proto',
  }))
  const answers = await reflect(clientOf(t, server.address), 'v1', requests)
  t.strictSame(
    answers.map((answer) => Reflect.get(Object(answer), 'valid_host')),
    requests.map(({ host }) => host),
  )
})

t.test('reflection: the server stops reading from a client that does not read answers', async (t) => {
  const { server } = await started(t)
  const session = connectHttp2(`http://${server.address}`)
  const stream = session.request({
    ':method': 'POST',
    ':path': '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.on('error', () => {}).pause()
  t.teardown(() => session.destroy())
  const name = 'google/protobuf/descriptor.proto'
  const request = Buffer.from([0, 0, 0, 0, name.length + 2, 0x1a, name.length, ...Buffer.from(name)])
  // More than the buffers between client and server. The rest is sent when the server reads again.
  let taken = false
  stream.write(Buffer.concat(Array<Buffer>(20_000).fill(request)), () => {
    taken = true
  })
  const other = clientOf(t, server.address)
  for (let n = 0; n < 500; n++) await call(other, QUERY.sdk, 'Authority')
  t.notOk(taken, 'the server does not read')
  t.ok(stream.writableLength > 0)
})

const tls = {
  cert: fileURLToPath(new URL('tls/localhost.crt', import.meta.url)),
  key: fileURLToPath(new URL('tls/localhost.key', import.meta.url)),
}

t.test('TLS: a server with a certificate answers only encrypted calls', async (t) => {
  const { server } = await started(t, { tls })
  const trusting = clientOf(t, server.address, credentials.createSsl(await readFile(tls.cert)))
  t.strictSame(await call(trusting, QUERY.sdk, 'Authority'), { address: '' })
  t.strictSame(await call(trusting, QUERY.cosmos, 'Authority'), { address: '' })
  const ends = { deadline: Date.now() + 5000 }
  const plain = clientOf(t, server.address)
  t.equal((await refused(call(plain, QUERY.sdk, 'Authority', {}, ends))).code, status.UNAVAILABLE)
  const distrusting = clientOf(t, server.address, credentials.createSsl())
  t.equal((await refused(call(distrusting, QUERY.sdk, 'Authority', {}, ends))).code, status.UNAVAILABLE)
  t.strictSame(await call(trusting, QUERY.sdk, 'Authority'), { address: '' }, 'the server still answers')
})

t.test('TLS: the start fails for unusable files, and names the setting', async (t) => {
  const dir = t.testdir({ garbage: 'no PEM at all' })
  const garbage = join(dir, 'garbage')
  const missing = join(dir, 'missing')
  const other = join(dir, 'other.key')
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  await writeFile(other, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const locked = join(dir, 'locked.key')
  await writeFile(
    locked,
    privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' }),
  )
  const cases: [typeof tls, string, RegExp][] = [
    [{ ...tls, cert: missing }, 'GRPC_TLS_CERT', /^GRPC_TLS_CERT cannot be read: ENOENT/],
    [{ ...tls, key: missing }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY cannot be read: ENOENT/],
    [{ ...tls, key: dir }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY cannot be read: EISDIR/],
    [{ ...tls, cert: garbage }, 'GRPC_TLS_CERT', /^GRPC_TLS_CERT is not a certificate/],
    [{ ...tls, cert: tls.key }, 'GRPC_TLS_CERT', /^GRPC_TLS_CERT is not a certificate/],
    [{ ...tls, key: garbage }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY is not a private key/],
    [{ ...tls, key: tls.cert }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY is not a private key/],
    [{ ...tls, key: locked }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY is not a private key without a passphrase/],
    [{ ...tls, key: other }, 'GRPC_TLS_KEY', /^GRPC_TLS_KEY is not the key of the certificate/],
  ]
  for (const [files, setting, message] of cases) {
    const error = await started(t, { tls: files }).catch((error: unknown) => error)
    t.ok(error instanceof ConfigError, `${message}`)
    t.match(error, { setting, message })
    t.notMatch(error, { message: /\n/ })
  }
})

t.test('the start fails for a port in use, and names the setting', async (t) => {
  const { server } = await started(t)
  await t.rejects(started(t, { port: server.port }), {
    setting: 'GRPC_PORT',
    message:
      /^GRPC_PORT is "\d+", but another program listens on 127\.0\.0\.1:\d+: stop it, or set GRPC_PORT to a free port$/,
  })
})

t.test('drain: running calls are answered, new ones are refused', async (t) => {
  let release = (): void => {}
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
  const answers = answering({
    authority: () => {
      arrive()
      return new Promise((resolve) => {
        release = () => resolve('late')
      })
    },
  })
  const { server } = await started(t, { answers, drainMs: 60_000 })
  const calling = call(clientOf(t, server.address), QUERY.sdk, 'Authority')
  await arrived
  const stopped = server.stop()
  t.equal(server.stop(), stopped, 'a second stop has no further effect')
  const late = call(
    clientOf(t, server.address),
    QUERY.sdk,
    'CurrentPlan',
    {},
    { deadline: Date.now() + 5000 },
  )
  t.equal((await refused(late)).code, status.UNAVAILABLE)
  release()
  t.strictSame(await calling, { address: 'late' })
  await stopped
})

t.test('drain: a call that does not end is cut off', async (t) => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
  const answers = answering({
    authority: () => {
      arrive()
      return new Promise(() => {})
    },
  })
  const { server } = await started(t, { answers, drainMs: 20 })
  const calling = refused(call(clientOf(t, server.address), QUERY.sdk, 'Authority'))
  await arrived
  await server.stop()
  t.not((await calling).code, status.OK)
})

t.test('a client that speaks another protocol is disconnected, and the server still answers', async (t) => {
  const { server } = await started(t)
  for (const text of [
    'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
    '\0'.repeat(10_000),
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxxxxxxx',
  ]) {
    const socket = connect(server.port, '127.0.0.1')
    socket.on('error', () => {}).resume()
    socket.write(text)
    await once(socket, 'close')
  }
  t.strictSame(await call(clientOf(t, server.address), QUERY.sdk, 'Authority'), { address: '' })
})

t.test(
  'line 1: the gRPC connections of an address are limited; trusted proxies have no such limit',
  async (t) => {
    let proxy = ''
    const connections = { all: 100, perNetwork: 2, isProxy: (address: string) => address === proxy }
    const { server } = await started(t, { connections })
    const open = async () => {
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', () => {}).resume()
      t.teardown(() => socket.destroy())
      await once(socket, 'connect')
      // HTTP/2 begins with settings of the server, when it accepts the connection.
      const first = await Promise.race([
        once(socket, 'data').then(() => 'accepted'),
        once(socket, 'close').then(() => 'closed'),
      ])
      return { first, socket }
    }
    const held = [await open(), await open()]
    t.strictSame(
      held.map(({ first }) => first),
      ['accepted', 'accepted'],
    )
    t.equal((await open()).first, 'closed', 'the third one of this address')
    proxy = '127.0.0.1'
    t.equal((await open()).first, 'accepted', 'a proxy speaks for many')
    proxy = ''
    for (const { socket } of held) socket.destroy()
    const client = clientOf(t, server.address)
    await until('there is room again', async () => (await open()).first === 'accepted')
    t.strictSame(await call(client, QUERY.sdk, 'Authority'), { address: '' })
  },
)

/** The child process for the ceilings of reads: a fastify route and a gRPC method with fixed answers. */
import { Server, ServerCredentials } from '@grpc/grpc-js'
import Fastify from 'fastify'
import { loadDescriptors } from '../src/upgrade/grpc-descriptors.ts'
import { serveParent } from './serve-parent.ts'

export interface BareReady {
  url: string
  grpcAddress: string
}

export interface BareCommand {
  body: object
}

let body: object = {}
const app = Fastify()
app.get('/', async () => body)
const url = await app.listen({ host: '127.0.0.1', port: 0 })

const grpc = new Server()
grpc.addService((await loadDescriptors()).service('sdk.upgrade.v1beta1.Query'), {
  CurrentPlan: (_call: object, callback: (error: null, answer: object) => void) => callback(null, {}),
})
const grpcPort = await new Promise<number>((resolve, reject) => {
  grpc.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
    error === null ? resolve(port) : reject(error),
  )
})

const ready: BareReady = { url, grpcAddress: `127.0.0.1:${grpcPort}` }

await serveParent(
  ready,
  async (command: BareCommand) => {
    body = command.body
    return {}
  },
  async () => {
    grpc.forceShutdown()
    await app.close()
  },
)

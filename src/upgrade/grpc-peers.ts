/** Addresses of gRPC clients: HTTP/2 runs over our own streams, which have no address. */
import type { Duplex } from 'node:stream'

const addresses = new WeakMap<object, string>()

/** Stores the address of a stream's client, in the format of grpc-js for sockets. */
export function rememberPeer(stream: Duplex, { address, port }: { address: string; port: number }): void {
  addresses.set(stream, `${address}:${port}`)
}

/** Properties that lead from a call of grpc-js to the stream, without and with TLS. There is no public API for it. */
const PATHS = [
  ['stream', 'session', 'socket', 'stream'],
  ['stream', 'session', 'socket', '_handle', '_parentWrap', 'stream'],
]

/** Makes a call return its client's address; falls back to the original value. */
export function namePeer(call: { getPeer(): string }): void {
  const original = call.getPeer.bind(call)
  call.getPeer = () => {
    try {
      for (const path of PATHS) {
        const stream = path.reduce<unknown>(propertyOf, call)
        const address = isObject(stream) ? addresses.get(stream) : undefined
        if (address !== undefined) return address
      }
      return original()
    } catch {
      // The connection has ended, and node no longer exposes its address.
      return 'unknown'
    }
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

function propertyOf(value: unknown, name: string): unknown {
  return isObject(value) ? Reflect.get(value, name) : undefined
}

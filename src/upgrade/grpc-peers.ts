/**
 * Knows the addresses of gRPC clients. HTTP/2 speaks with them through streams of ours, which have no address, and hides
 * the stream behind sockets of its own.
 */
import type { Duplex } from 'node:stream'

const addresses = new WeakMap<object, string>()

/** Remembers the address of the client behind a stream, as grpc-js writes those of sockets. */
export function rememberPeer(stream: Duplex, { address, port }: { address: string; port: number }): void {
  addresses.set(stream, `${address}:${port}`)
}

/** The properties that lead from a call of grpc-js to the stream, without TLS and with it. There is no public way. */
const PATHS = [
  ['stream', 'session', 'socket', 'stream'],
  ['stream', 'session', 'socket', '_handle', '_parentWrap', 'stream'],
]

/** Makes a call give the address that was remembered; what it gave before when none is found. */
export function namePeer(call: { getPeer(): string }): void {
  const given = call.getPeer.bind(call)
  call.getPeer = () => {
    try {
      for (const path of PATHS) {
        const stream = path.reduce<unknown>(propertyOf, call)
        const address = isObject(stream) ? addresses.get(stream) : undefined
        if (address !== undefined) return address
      }
      return given()
    } catch {
      // The connection has ended: then node does not even say which it was.
      return 'unknown'
    }
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

function propertyOf(value: unknown, name: string): unknown {
  return isObject(value) ? Reflect.get(value, name) : undefined
}

/** A name server on this machine, over UDP and TCP. The test decides its answers. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type t from 'tap'

type Kind = 'A' | 'AAAA'

/** The addresses of a name, each as its bytes; undefined: no answer. */
type Answer = (name: string, kind: Kind) => readonly Uint8Array[] | undefined

/** Maximum number of addresses in a UDP answer. Larger answers need TCP. */
const OVER_UDP = 20
const HEADER = 12

/** The question's name, its type, and its end. */
function questionIn(query: Buffer) {
  const labels: string[] = []
  let at = HEADER
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 }
}

/** Encodes an address of the name in the question. */
function record(type: number, address: Uint8Array): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc000 | HEADER, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(address.length, 10)
  return Buffer.concat([head, address])
}

/** Starts one. Resolves to its `address:port`. */
export async function startNameServer(test: Pick<typeof t, 'teardown'>, answer: Answer): Promise<string> {
  function answerTo(query: Buffer, isUdp: boolean): Buffer | undefined {
    const { name, type, end } = questionIn(query)
    const addresses = answer(name, type === 28 ? 'AAAA' : 'A')
    if (addresses === undefined) return undefined
    const isCut = isUdp && addresses.length > OVER_UDP
    const records = isCut ? [] : addresses.map((address) => record(type, address))
    const head = Buffer.from(query.subarray(0, HEADER))
    head.writeUInt16BE(isCut ? 0x8380 : 0x8180, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    head.writeUInt32BE(0, 8)
    return Buffer.concat([head, query.subarray(HEADER, end), ...records])
  }

  const udp = createSocket('udp4')
  udp.on('message', (query, from) => {
    const said = answerTo(query, true)
    if (said !== undefined) udp.send(said, from.port, from.address)
  })
  udp.bind(0, '127.0.0.1')
  await once(udp, 'listening')
  const { port } = udp.address()
  const tcp = createServer((socket) => {
    socket.on('error', () => {})
    let rest = Buffer.alloc(0)
    socket.on('data', (data) => {
      rest = Buffer.concat([rest, data])
      while (rest.length > 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
        const end = 2 + rest.readUInt16BE(0)
        const said = answerTo(rest.subarray(2, end), false)
        rest = rest.subarray(end)
        if (said === undefined) continue
        const length = Buffer.alloc(2)
        length.writeUInt16BE(said.length)
        socket.write(Buffer.concat([length, said]))
      }
    })
  })
  tcp.listen(port, '127.0.0.1')
  await once(tcp, 'listening')
  test.teardown(() => {
    udp.close()
    tcp.close()
  })
  return `127.0.0.1:${port}`
}

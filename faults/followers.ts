/** Clients that follow the history of the repository live, and reconnect to another node when a connection ends. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Client, jsonOf } from './client.ts'
import { ANSWERED_BY, NOT_BY } from './proxy.ts'

const PAUSE_MS = 100
/** Silence after which a connection counts as broken, in milliseconds: the server sends a heartbeat more often. */
const SILENCE_MS = 60_000

export interface Follower {
  /** The ids of the events so far, in order of arrival. */
  seen: readonly string[]
  /** Number of reconnects. */
  resumed(): number
  stop(): Promise<void>
}

/** Begins with the first event. */
export function follow({ url, authorization, path }: Client): Follower {
  const seen: string[] = []
  const stopping = new AbortController()
  let last: string | undefined
  let connections = 0

  async function connection(not: string | undefined): Promise<string | undefined> {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(), SILENCE_MS)
    const answer = await fetch(`${url}/api/v1${path}/history`, {
      headers: {
        accept: 'text/event-stream',
        authorization,
        ...(last !== undefined && { 'last-event-id': last }),
        ...(not !== undefined && { [NOT_BY]: not }),
      },
      signal: AbortSignal.any([stopping.signal, silence.signal]),
    })
    const node = answer.headers.get(ANSWERED_BY) ?? undefined
    try {
      if (answer.status !== 200 || answer.body === null) {
        await answer.arrayBuffer()
        return node
      }
      connections += 1
      let text = ''
      const decoder = new TextDecoder()
      for await (const chunk of answer.body) {
        timer.refresh()
        text += decoder.decode(chunk, { stream: true })
        const frames = text.split('\n\n')
        // An incomplete message is sent again after a reconnect.
        text = frames.pop() ?? ''
        for (const frame of frames) take(frame)
      }
    } catch {
      // The connection broke.
    } finally {
      clearTimeout(timer)
    }
    return node
  }

  function take(frame: string): void {
    const id = /^id: (.*)$/m.exec(frame)?.[1]
    const data = /^data: (.*)$/m.exec(frame)?.[1]
    if (id === undefined || data === undefined) return
    last = id
    seen.push(String(jsonOf(data).id))
  }

  async function run(): Promise<void> {
    let before: string | undefined
    while (!stopping.signal.aborted) {
      before = await connection(before).catch(() => undefined)
      await delay(PAUSE_MS)
    }
  }
  const running = run()
  return {
    seen,
    resumed: () => Math.max(0, connections - 1),
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/**
 * Marks a log in EventStoreDB as half imported, so that no server starts on it. The mark is an event in a separate stream.
 * It lacks Mergelog's metadata, so readers of the log and exports skip it.
 */
import { randomUUID } from 'node:crypto'
import { type EventStoreDBClient, jsonEvent, StreamNotFoundError } from '@eventstore/db-client'
import { type ReadLimits, readBatches } from './batches.ts'

const STREAM = 'mergelog-import'
const BEGUN = 'ImportBegun'
const ENDED = 'ImportEnded'

export interface ImportMark {
  /** Returns the export that an unfinished import gave to `begin`, if any. */
  unfinished(): Promise<string | undefined>
  begin(ofExport: string): Promise<void>
  end(): Promise<void>
}

export function createImportMark(
  client: () => EventStoreDBClient,
  reading: ReadLimits,
  command: <T>(run: () => Promise<T>, what: string) => Promise<T>,
): ImportMark {
  const write = async (type: string, data: Record<string, string>) => {
    const event = jsonEvent({ id: randomUUID(), type, data })
    await command(
      () => client().appendToStream(STREAM, event, { requiresLeader: true }),
      `to write the stream ${STREAM}`,
    )
  }

  return {
    async unfinished() {
      const open = () =>
        client().readStream(STREAM, { direction: 'backwards', fromRevision: 'end', maxCount: 1 })
      try {
        for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
          for (const { event } of batch) return event === undefined ? undefined : exportIn(event)
        }
      } catch (error) {
        if (!(error instanceof StreamNotFoundError)) throw error
      }
      return undefined
    },
    begin: (ofExport) => write(BEGUN, { export: ofExport }),
    end: () => write(ENDED, {}),
  }
}

function exportIn({ type, data }: { type: string; data: unknown }): string | undefined {
  if (type !== BEGUN || typeof data !== 'object' || data === null || !('export' in data)) return undefined
  return `${data.export}`
}

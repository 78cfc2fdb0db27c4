/** Documents for the answers of the commands that made or changed them. */

import { Refused, refuse } from '../../errors/refusal.ts'
import { decode } from '../../events/codec.ts'
import type { Fold } from '../../projections/projector/read-model.ts'
import type { View } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'

/**
 * Returns a document. When the projections lag or have stopped, it is folded from the stream of its own events, so that the
 * command can still show its result. `what`: the name in the refusal. @throws Refused (not found)
 */
export async function loadDocument<D extends object>(
  { events }: Services,
  what: string,
  { id, stream, view, fold }: { id: number | string; stream: string; view: View<D>; fold: Fold<D> },
): Promise<D> {
  let document: D | undefined = await view.get(`${id}`)
  if (document !== undefined) return document
  for await (const event of events.readStream(stream)) {
    document = fold.evolve(document, decode(event), `${id}`)
  }
  if (document === undefined) throw new Refused(refuse.notFound(`${what} not found`))
  return document
}

/** The timeline: what happened, one entry an event. A long one is shown in parts. */
import { html } from 'ghtml'
import { decode, UnreadableEvent } from '../events/codec.ts'
import type { EventStore, RecordedEvent } from '../events/event-store.ts'
import { isStoryEvent, type Telling, tell } from './tell.ts'
import { instant, prose } from './words.ts'

/** Entries that are shown at once. */
export const ENTRIES = 100
/** So much of a text is shown in an entry; the moment shows more. */
const ENTRY_CHARACTERS = 600

/** An event, told. */
export interface Entry extends Telling {
  revision: number
  at: string
  /** Null: the server itself. */
  login: string | null
}

/** What a newer version recorded is told by its name. */
function told(recorded: RecordedEvent): Telling {
  try {
    const event = decode(recorded)
    if (isStoryEvent(event)) return tell(event)
  } catch (error) {
    if (!(error instanceof UnreadableEvent)) throw error
  }
  return { kind: 'field', what: html`recorded <code>${recorded.type}</code>` }
}

export function entryOf(recorded: RecordedEvent): Entry {
  const { revision, metadata } = recorded
  return { ...told(recorded), revision, at: metadata.at, login: metadata.actor?.login ?? null }
}

/** The entries from a revision on, no more than `most`. */
export async function entriesOf(
  events: EventStore,
  stream: string,
  from: number,
  most: number,
): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const recorded of events.readStream(stream, { from, maxCount: most })) {
    entries.push(entryOf(recorded))
  }
  return entries
}

/** Where the part of the timeline that has a revision begins. */
export const partOf = (revision: number) => revision - (revision % ENTRIES)

/** Who did what, as one sentence. */
export function sentence({ login, what }: Pick<Entry, 'login' | 'what'>): string {
  return html`<span class="who"><bdi>${login ?? 'Mergelog'}</bdi></span> !${what}.`
}

/** `last`: the newest revision that there is; `page`: the path of the page. */
export function timelineSection(
  entries: readonly Entry[],
  { revision, last, page }: { revision: number; last: number; page: string },
): string {
  const first = entries[0]?.revision ?? 0
  const end = entries.at(-1)?.revision ?? first
  const link = (to: number, words: string) =>
    html`<p class="more"><a href="${page}?revision=${to}" data-revision="${to}">${words}</a></p>`
  return html`<section id="timeline" class="timeline" aria-labelledby="timeline-title" data-first="${first}" data-end="${end}">
<h2 id="timeline-title">What happened</h2>
!${first > 0 ? link(first - 1, `Earlier: events 1 to ${first}`) : ''}
<ol start="${first + 1}">
!${entries.map((entry) => entryItem(entry, revision, page))}</ol>
!${end < last ? link(end + 1, `Later: events ${end + 2} to ${last + 1}`) : ''}
</section>`
}

function entryItem(entry: Entry, current: number, page: string): string {
  const { revision, at, kind, text } = entry
  const href = `${page}?revision=${revision}`
  return html`<li class="entry ${kind}" data-revision="${revision}">
<p class="told">!${sentence(entry)}</p>
!${text === undefined || text === '' ? '' : prose(text, ENTRY_CHARACTERS)}
<p class="when"><a href="${href}" data-revision="${revision}"!${revision === current ? ' aria-current="step"' : ''}>!${instant(at)}<span class="aside"> — see it then, event ${revision + 1}</span></a></p>
</li>
`
}

/** The timeline of a pull request: one entry for each event. A long timeline is shown in parts. */
import { html } from 'ghtml'
import { decode, UnreadableEvent } from '../events/codec.ts'
import type { EventStore, RecordedEvent } from '../events/store/event-store.ts'
import {
  describeEvent,
  type EventDescription,
  isTimelineEvent,
  type TimelineEvent,
} from './event-sentences.ts'
import { instant, type PageLinks, person } from './format.ts'
import type { ShowText } from './shown-texts.ts'

/** Number of entries in one part of the timeline. */
export const ENTRIES = 100
/** Maximum number of characters of a text in an entry. The moment shows more. */
const ENTRY_CHARACTERS = 600

/** An event with its description. */
export interface Entry extends EventDescription {
  revision: number
  at: string
  /** Null for an event of the server itself. */
  login: string | null
}

/** Describes a recorded event. An event of a newer Mergelog is described by its type. */
function descriptionOf(recorded: RecordedEvent, links: PageLinks): EventDescription {
  try {
    const event = decode(recorded)
    if (isTimelineEvent(event)) return describeEvent(event, links)
  } catch (error) {
    if (!(error instanceof UnreadableEvent)) throw error
  }
  return { kind: 'field', action: html`recorded <code>${recorded.type}</code>` }
}

/** Events of the server itself. Their actor is the user whose action caused them. */
const SERVER_EVENTS: ReadonlySet<string> = new Set<TimelineEvent['type']>([
  'MergeabilityChecked',
  'MergeBaseMoved',
  'MergeFailed',
  'ReviewsOutdated',
  'ScheduledMergeRefused',
])

/** At most `limit` entries, beginning with the revision `from`. */
export async function entriesOf(
  events: EventStore,
  stream: string,
  { from, limit }: { from: number; limit: number },
  links: PageLinks,
): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const recorded of events.readStream(stream, { from, maxCount: limit })) {
    const { revision, type, metadata } = recorded
    const login = SERVER_EVENTS.has(type) ? null : (metadata.actor?.login ?? null)
    entries.push({ ...descriptionOf(recorded, links), revision, at: metadata.at, login })
  }
  return entries
}

/** The first revision of the timeline's part that contains a revision. */
export const partStart = (revision: number) => revision - (revision % ENTRIES)

/** Returns the sentence of an event: actor and action. */
export function sentence({ login, action }: Pick<Entry, 'login' | 'action'>, links: PageLinks): string {
  return html`<span class="who">!${login === null ? 'Mergelog' : person(links, login)}</span> !${action}.`
}

/** The markup of one part. `revision` is the shown one, `last` the newest one, `page` the path of the page. */
export async function timelineSection(
  entries: readonly Entry[],
  { revision, last, page }: { revision: number; last: number; page: string },
  links: PageLinks,
  show: ShowText,
): Promise<string> {
  const items: string[] = []
  // Sequential, because one thread renders all texts.
  for (const entry of entries) {
    const text = await show(entry.text ?? '', ENTRY_CHARACTERS)
    items.push(entryItem(entry, sentence(entry, links), text, { revision, page }))
  }
  const first = entries[0]?.revision ?? 0
  const end = entries.at(-1)?.revision ?? first
  const link = (to: number, words: string) =>
    html`<p class="more"><a href="${page}?revision=${to}" data-revision="${to}">${words}</a></p>`
  return html`<section id="timeline" class="timeline" aria-labelledby="timeline-title" data-first="${first}" data-end="${end}">
<h2 id="timeline-title">What happened</h2>
!${first > 0 ? link(first - 1, `Earlier: events 1 to ${first}`) : ''}
<ol start="${first + 1}">
!${items}</ol>
!${end < last ? link(end + 1, `Later: events ${end + 2} to ${last + 1}`) : ''}
</section>`
}

function entryItem(
  { revision, at, kind }: Entry,
  sentenceMarkup: string,
  text: string,
  { revision: current, page }: { revision: number; page: string },
): string {
  const href = `${page}?revision=${revision}`
  return html`<li class="entry ${kind}" data-revision="${revision}">
<p class="sentence">!${sentenceMarkup}</p>
!${text}
<p class="when"><a href="${href}" data-revision="${revision}"!${revision === current ? ' aria-current="step"' : ''}>!${instant(at)}<span class="aside"> — show the pull request after event ${revision + 1}</span></a></p>
</li>
`
}

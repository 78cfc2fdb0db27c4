// @ts-check
/**
 * Shows other moments of a pull request without loading the whole page again, and shows new events live. All
 * markup comes from the server, section by section. This script never builds markup from data.
 */

/** How many moments and diffs are cached. They never change: they show the state after a past event. */
const CACHE_SIZE = { moment: 100, changes: 8 }
/**
 * Nothing is loaded while the slider moves. Loading starts when it has not moved for this time, in
 * milliseconds.
 */
const SETTLED_MS = 60

/** @typedef {'moment' | 'timeline' | 'changes'} Part */

/**
 * The page's path. Full addresses are built from `location.origin`: fetch refuses one with a user and a
 * password.
 */
const { page = '' } = document.body.dataset
const slider = /** @type {HTMLInputElement} */ (byId('slider'))

let last = Number(document.body.dataset.last)
/** The revision that the user chose. It may not be loaded yet. */
let wanted = Number(document.body.dataset.revision)
let following = wanted === last

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const element = document.getElementById(id)
  if (element === null) throw new Error(`the page has no ${id}`)
  return element
}

/** @type {Map<string, string>} */
const cache = new Map()

/**
 * A section of the page at a revision, from the cache or from the server.
 * @param {Part} part
 * @param {number} revision
 * @param {string} name the key in the cache
 * @param {AbortSignal} signal
 */
async function fetched(part, revision, name, signal) {
  const key = `${part} ${name}`
  const known = cache.get(key)
  if (known !== undefined) return parsed(known, part)
  const address = `${location.origin}${page}?revision=${revision}&part=${part}`
  const answer = await fetch(address, { signal, cache: 'no-store' })
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`)
  const text = await answer.text()
  if (part !== 'timeline') keep(part, key, text)
  return parsed(text, part)
}

/** @param {'moment' | 'changes'} part @param {string} key @param {string} text */
function keep(part, key, text) {
  cache.set(key, text)
  const same = [...cache.keys()].filter((other) => other.startsWith(`${part} `))
  for (const oldest of same.slice(0, -CACHE_SIZE[part])) cache.delete(oldest)
}

/** @param {string} text @param {Part} part */
function parsed(text, part) {
  const section = new DOMParser().parseFromString(text, 'text/html').getElementById(part)
  if (section === null) throw new Error(`the answer has no ${part}`)
  return document.adoptNode(section)
}

/** Keeps the focus on the same entry. @param {HTMLElement} section */
function replaceTimeline(section) {
  const old = byId('timeline')
  const focused = old.contains(document.activeElement) ? document.activeElement : null
  const revision = focused instanceof HTMLElement ? focused.dataset.revision : undefined
  const scroll = old.scrollTop
  old.replaceWith(section)
  section.scrollTop = scroll
  if (revision !== undefined) entryLink(Number(revision))?.focus({ preventScroll: true })
}

/** @param {number} revision */
const entryLink = (revision) =>
  /** @type {HTMLElement | null} */ (byId('timeline').querySelector(`li a[data-revision="${revision}"]`))

/** @param {number} revision */
function isInTimeline(revision) {
  const { first, end } = byId('timeline').dataset
  return Number(first) <= revision && revision <= Number(end)
}

/** The sentence of an event, as text. @param {number} revision */
function sentenceOf(revision) {
  const moment = byId('moment')
  const shown = Number(moment.dataset.revision) === revision ? moment.querySelector('.event .sentence') : null
  const sentence = shown ?? entryLink(revision)?.closest('li')?.querySelector('.sentence')
  return sentence?.textContent?.trim() ?? ''
}

/** Updates the slider, the links and the timeline to the chosen revision, without asking the server. */
function mark() {
  const words = `Event ${wanted + 1} of ${last + 1}`
  const sentence = sentenceOf(wanted)
  slider.max = `${last}`
  slider.value = `${wanted}`
  slider.setAttribute('aria-valuetext', sentence === '' ? words : `${words}: ${sentence}`)
  byId('place').textContent = words.toLowerCase()
  step('previous', wanted - 1)
  step('next', wanted + 1)
  for (const total of byId('moment').querySelectorAll('.total')) total.textContent = `${last + 1}`
  for (const current of document.querySelectorAll('#timeline [aria-current]'))
    current.removeAttribute('aria-current')
  const link = entryLink(wanted)
  link?.setAttribute('aria-current', 'step')
  if (link) bringIntoView(link)
}

/**
 * Scrolls only the timeline, not the page, when the timeline has its own scroll bar. @param {HTMLElement}
 * link
 */
function bringIntoView(link) {
  const timeline = byId('timeline')
  const entry = link.closest('li')
  if (entry === null || timeline.scrollHeight <= timeline.clientHeight) return
  const [inner, outer] = [entry.getBoundingClientRect(), timeline.getBoundingClientRect()]
  if (inner.top < outer.top) timeline.scrollTop -= outer.top - inner.top + 16
  if (inner.bottom > outer.bottom) timeline.scrollTop += inner.bottom - outer.bottom + 16
}

/** @param {string} id @param {number} revision */
function step(id, revision) {
  const link = byId(id)
  if (revision < 0 || revision > last) {
    link.removeAttribute('href')
    return
  }
  link.setAttribute('href', `${page}?revision=${revision}`)
  link.dataset.revision = `${revision}`
}

let loading = new AbortController()
/** @type {ReturnType<typeof setTimeout> | undefined} */
let settling

/**
 * Goes to a moment: immediately when the moment is in the cache, otherwise when the slider has stopped
 * moving.
 * @param {number} revision @param {{ announce?: boolean, settled?: boolean }} [how]
 */
function go(revision, { announce = false, settled = false } = {}) {
  wanted = Math.min(Math.max(revision, 0), last)
  following = wanted === last
  clearTimeout(settling)
  loading.abort()
  loading = new AbortController()
  const { signal } = loading
  mark()
  const now = settled || cache.has(`moment ${wanted}`)
  if (now) show(wanted, announce, signal)
  else settling = setTimeout(() => show(wanted, announce, signal), SETTLED_MS)
}

/** @param {number} revision @param {boolean} announce @param {AbortSignal} signal */
async function show(revision, announce, signal) {
  document.body.setAttribute('aria-busy', 'true')
  try {
    const [moment, timeline] = await Promise.all([
      fetched('moment', revision, `${revision}`, signal),
      isInTimeline(revision) ? undefined : fetched('timeline', revision, '', signal),
    ])
    if (signal.aborted) return
    byId('moment').replaceWith(moment)
    if (timeline !== undefined) replaceTimeline(timeline)
    mark()
    if (announce) byId('said').textContent = slider.getAttribute('aria-valuetext')
    const title = document.title.slice(document.title.lastIndexOf(' · '))
    document.title = `${byId('title').querySelector('bdi')?.textContent ?? ''}${title}`
    const query = following ? '' : `?revision=${revision}`
    history.replaceState(null, '', `${page}${query}`)
    const diff = moment.dataset.diff ?? ''
    if (diff !== byId('changes').dataset.diff) {
      const changes = await fetched('changes', revision, diff, signal)
      if (signal.aborted) return
      byId('changes').replaceWith(changes)
    }
    document.body.removeAttribute('aria-busy')
  } catch (error) {
    if (signal.aborted) return
    document.body.removeAttribute('aria-busy')
    byId('said').textContent = 'This moment could not be loaded. Try again.'
    console.error(error)
  }
}

/** Whether the timeline is being loaded, and whether it must be loaded again after that. */
let refreshing = false
let stale = false

/** Loads the timeline after new events, with at most one request at a time. @param {boolean} follow */
async function refresh(follow) {
  stale = true
  if (refreshing) return
  refreshing = true
  try {
    while (stale) {
      stale = false
      const timeline = await fetched('timeline', wanted, '', new AbortController().signal)
      replaceTimeline(timeline)
      mark()
    }
  } catch (error) {
    console.error(error)
  } finally {
    refreshing = false
  }
  if (follow && following && Number(byId('moment').dataset.revision) !== last) {
    go(last, { announce: true, settled: true })
  }
}

function listen() {
  /**
   * A browser gives up when the server refuses an EventSource. Then we try again after a growing pause, in
   * ms.
   */
  const PAUSE_MS = { first: 2000, longest: 60_000 }
  const live = byId('live')
  let pause = PAUSE_MS.first
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting
  /** @type {EventSource | undefined} */
  let source

  const address = () => `${location.origin}${page}/live?after=${last}`

  /** @param {'on' | 'lost' | 'over'} state @param {string} words */
  function say(state, words) {
    live.textContent = words
    document.body.dataset.live = state
  }

  function open() {
    const opened = new EventSource(address())
    source = opened
    opened.onopen = () => {
      pause = PAUSE_MS.first
      say('on', 'Live')
    }
    opened.onerror = () => {
      say('lost', 'Reconnecting …')
      if (opened.readyState === EventSource.CLOSED) wait()
    }
    opened.onmessage = ({ lastEventId }) => {
      const revision = Number(lastEventId)
      if (!(revision > last)) return
      last = revision
      if (following) wanted = last
      slider.max = `${last}`
      refresh(true)
    }
  }

  function wait() {
    // A random pause, so that many refused pages don't return at the same moment.
    waiting = setTimeout(tryAgain, pause * (1 + Math.random() / 2))
    pause = Math.min(pause * 2, PAUSE_MS.longest)
  }

  /** Asks with HEAD why the server refused: an EventSource doesn't say it. */
  async function tryAgain() {
    const answer = await fetch(address(), { method: 'HEAD', cache: 'no-store' }).catch(() => undefined)
    const status = answer?.status ?? 503
    if (status < 400) open()
    else if (status === 429 || status >= 500) wait()
    // The server has fewer events than this page: its data was replaced, for example by an older backup.
    else if (status === 422) location.replace(page)
    else say('over', 'Not live: please reload the page')
  }

  open()
  // A page in the browser's back/forward cache must not keep a connection.
  addEventListener('pagehide', () => {
    clearTimeout(waiting)
    source?.close()
  })
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) location.reload()
  })
}

slider.addEventListener('input', () => go(Number(slider.value)))

document.addEventListener('click', (event) => {
  const { target } = event
  if (!(target instanceof Element) || event.button !== 0) return
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
  const link = target.closest('a[data-revision]')
  if (!(link instanceof HTMLElement) || !link.hasAttribute('href')) return
  event.preventDefault()
  const { revision } = link.dataset
  go(revision === 'now' ? last : Number(revision), { announce: true, settled: true })
})

for (const hidden of document.querySelectorAll('.slider')) hidden.removeAttribute('hidden')
mark()
listen()

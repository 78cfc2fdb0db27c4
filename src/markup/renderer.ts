/**
 * Renders markdown in a thread of its own, one text at a time: a text may be made to take long. A text that does is given
 * up together with its thread, and the next one gets another. The thread is started at the first text.
 */
import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { createFairSlots } from '../fair-slots.ts'
import { limitReached } from '../limits.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Markdown } from './render.ts'

const DEADLINE_MS = 2000

const KIND = extname(import.meta.url)
const PROGRAM = new URL(`./render-thread${KIND}`, import.meta.url).href
/** A thread needs JavaScript, and this file may run as TypeScript: then the thread learns to read that first. */
const TYPESCRIPT = KIND === '.ts' ? import.meta.resolve('tsx/esm/api') : null
const THREAD = `
  const { program, typescript } = require('node:worker_threads').workerData
  const ready = typescript === null ? Promise.resolve() : import(typescript).then(({ register }) => register())
  ready.then(() => import(program))
`

const slots = createFairSlots({ name: 'markdown', size: 1, waiting: 32 })

/** The thread, when it has loaded its code. */
let thread: Promise<Worker> | undefined

/** Starts it when there is none. There is one at a time: only the end of it makes room for another. */
function running(): Promise<Worker> {
  if (thread !== undefined) return thread
  const worker = new Worker(THREAD, {
    eval: true,
    execArgv: [],
    workerData: { program: PROGRAM, typescript: TYPESCRIPT },
  })
  worker.on('exit', () => {
    thread = undefined
  })
  // Its first message says that it is ready.
  thread = once(worker, 'message').then(() => worker)
  // Who waits for an answer hears of the end, too.
  worker.on('error', () => {})
  return thread
}

/** Undefined: it took too long, or becomes too long. */
async function rendered(markdown: Markdown): Promise<string | undefined> {
  const worker = await running()
  return new Promise((resolve) => {
    const end = (html?: string) => {
      clearTimeout(deadline)
      worker.off('message', end)
      worker.off('exit', ended)
      worker.unref()
      resolve(html)
    }
    const ended = () => end()
    // The next text gets another thread once this one has ended.
    const deadline = setTimeout(() => void worker.terminate(), DEADLINE_MS)
    worker.on('message', end)
    worker.on('exit', ended)
    worker.ref()
    worker.postMessage(markdown)
  })
}

/**
 * The safe HTML of a text. `client`: whose work it is.
 * @throws Refused (unprocessable) for a text that takes too long, or whose HTML is too long; SlotsFull when too many wait
 */
export async function renderInThread(client: string, markdown: Markdown): Promise<string> {
  const release = await slots.take(client)
  try {
    const html = await rendered(markdown)
    if (html !== undefined) return html
    limitReached('markdown_time')
    throw new Refused(refuse.unprocessable('Text: takes too long to render, or becomes too long'))
  } finally {
    release()
  }
}

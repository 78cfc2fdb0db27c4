/** The thread program of `renderer.ts`. */
import { parentPort } from 'node:worker_threads'
import { type Markdown, type Prose, proseOf, renderMarkdown } from './render.ts'

parentPort?.postMessage('ready')
parentPort?.on('message', (task: Markdown | Prose) =>
  parentPort?.postMessage('prose' in task ? proseOf(task) : renderMarkdown(task)),
)

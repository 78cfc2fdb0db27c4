/** The thread program of `renderer.ts`. */
import { parentPort } from 'node:worker_threads'
import { type Code, highlighted } from './highlight.ts'
import { type Markdown, type Prose, proseOf, renderMarkdown } from './render.ts'

parentPort?.postMessage('ready')
parentPort?.on('message', (task: Markdown | Prose | Code) => {
  const answer = 'code' in task ? highlighted(task) : 'prose' in task ? proseOf(task) : renderMarkdown(task)
  parentPort?.postMessage(answer)
})

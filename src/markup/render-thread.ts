/** The thread that renders: a program that `renderer.ts` starts. */
import { parentPort } from 'node:worker_threads'
import { type Markdown, renderMarkdown } from './render.ts'

parentPort?.postMessage('ready')
parentPort?.on('message', (markdown: Markdown) => parentPort?.postMessage(renderMarkdown(markdown)))

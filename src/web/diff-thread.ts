/** The thread that draws diffs: a program that `diff.ts` starts. */
import { parentPort } from 'node:worker_threads'
import { type RawDiff, renderDiff } from './render-diff.ts'

parentPort?.postMessage('ready')
parentPort?.on('message', (given: RawDiff) => parentPort?.postMessage(renderDiff(given)))

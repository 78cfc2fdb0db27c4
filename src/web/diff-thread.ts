/** The thread that draws diffs: a program that `diff.ts` starts. */
import { parentPort } from 'node:worker_threads'
import { drawDiff, type GivenDiff } from './draw-diff.ts'

parentPort?.postMessage('ready')
parentPort?.on('message', (given: GivenDiff) => parentPort?.postMessage(drawDiff(given)))

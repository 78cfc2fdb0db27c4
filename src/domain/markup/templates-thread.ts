/** The thread program of `template-reader.ts`. */
import { parentPort } from 'node:worker_threads'
import { configIn, templateIn } from './issue-templates.ts'
import type { TemplateAnswer, TemplateTask } from './template-reader.ts'

function answerTo(task: TemplateTask): TemplateAnswer {
  if (task.kind === 'config') return { kind: 'config', config: configIn(task.text) }
  const found = task.files.map(({ path, text }) => templateIn(path, text))
  return { kind: 'templates', templates: found.filter((template) => template !== undefined) }
}

parentPort?.postMessage('ready')
parentPort?.on('message', (task: TemplateTask) => parentPort?.postMessage(answerTo(task)))

/** Parses issue templates in a thread: a hostile template may take long. */

import { taskThread } from '../../concurrency/task-thread.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueConfig, IssueTemplate } from './issue-templates.ts'

export type TemplateTask =
  | { kind: 'templates'; files: readonly { path: string; text: string }[] }
  | { kind: 'config'; text: string }

export type TemplateAnswer =
  | { kind: 'templates'; templates: IssueTemplate[] }
  /** The configuration, or its problem. */
  | { kind: 'config'; config: IssueConfig | string }

const DEADLINE_MS = 5000

const thread = taskThread<TemplateTask, TemplateAnswer>({
  path: 'domain/markup/templates-thread',
  name: 'issue_templates',
  deadlineMs: DEADLINE_MS,
})

/**
 * Parses templates. `client` is the key of the queue.
 * @throws Refused (unprocessable) when the files take too long; SlotsFull when the queue is full
 */
export async function readTemplates(client: string, task: TemplateTask): Promise<TemplateAnswer> {
  const answer = await thread.run(client, task)
  if (answer !== undefined) return answer
  limitReached('issue_template_time')
  throw new Refused(refuse.unprocessable('the templates of the repository take too long to read'))
}

/** Reads issue templates in a thread of its own: a hostile template may take long to parse. */

import { taskThread } from '../../concurrency/task-thread.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueConfig, IssueTemplate } from './issue-templates.ts'

export type TemplateTask =
  | { kind: 'templates'; files: readonly { path: string; text: string }[] }
  | { kind: 'config'; text: string }

export type TemplateAnswer =
  | { kind: 'templates'; templates: IssueTemplate[] }
  /** What is wrong with the configuration, or what it says. */
  | { kind: 'config'; config: IssueConfig | string }

const DEADLINE_MS = 5000

const thread = taskThread<TemplateTask, TemplateAnswer>({
  path: 'domain/markup/templates-thread',
  name: 'issue_templates',
  deadlineMs: DEADLINE_MS,
})

/**
 * `client`: whose work it is. @throws Refused (unprocessable) when the files take too long; SlotsFull when too many wait
 */
export async function readTemplates(client: string, task: TemplateTask): Promise<TemplateAnswer> {
  const answer = await thread.run(client, task)
  if (answer !== undefined) return answer
  limitReached('issue_template_time')
  throw new Refused(refuse.unprocessable('the templates of the repository take too long to read'))
}

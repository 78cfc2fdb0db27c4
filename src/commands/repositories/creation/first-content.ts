/** Creates the first content of a repository: a README, a license, labels. */
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { LabelSettings } from '../../../events/catalog/labels.ts'
import { idsStream } from '../../../events/streams.ts'
import type { Services } from '../../../services/services.ts'
import { labels } from '../../execution/aggregates.ts'
import { type CommandContext, partOf } from '../../execution/command-context.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { decideCreateLabel } from '../../labels/label.decider.ts'
import { licenseText } from './licenses.ts'

const Word = (description: string) => Type.Optional(Type.String({ maxLength: 255, description }))

/** Body fields of the first content. */
export const FIRST_CONTENT = {
  readme: Word('Only Default is supported: a README with the name and the description'),
  license: Word('SPDX id of a license, such as MIT: the file LICENSE of the first commit'),
  issue_labels: Word('Default: the labels of this set of Gitea'),
  gitignores: Word('Only an empty text is supported'),
  trust_model: Word('Only default is supported'),
  object_format_name: Word('Only sha1 is supported'),
}

const Option = Type.Object({
  ...FIRST_CONTENT,
  description: Type.Optional(Type.String()),
  auto_init: Type.Optional(Type.Boolean()),
})

/** The only supported value of each field besides the empty one. */
const KNOWN: Record<Exclude<keyof typeof FIRST_CONTENT, 'license'>, string | undefined> = {
  readme: 'Default',
  issue_labels: 'Default',
  gitignores: undefined,
  trust_model: 'default',
  object_format_name: 'sha1',
}

/** Rejects unsupported fields instead of ignoring them. @throws Refused (unprocessable) */
function requireKnown(body: Static<typeof Option>): void {
  const given = new Map<string, unknown>(Object.entries(body))
  const errors = Object.entries(KNOWN).flatMap(([field, known]) => {
    const value = given.get(field)
    if (value == null || value === '' || value === known) return []
    return [known === undefined ? `${field}: is not supported` : `${field}: can only be ${known}`]
  })
  if (errors.length > 0) throw new Refused(refuse.unprocessable(errors.join('; '), errors))
}

/** Returns the files of the first commit, by name. @throws Refused (unprocessable) */
export async function firstFiles(
  body: Static<typeof Option>,
  { name, owner, year }: { name: string; owner: string; year: number },
): Promise<ReadonlyMap<string, string>> {
  requireKnown(body)
  const { auto_init, readme, license, description = '' } = body
  const files = new Map<string, string>()
  if (auto_init || readme) {
    files.set('README.md', `# ${name}\n${description === '' ? '' : `\n${description}\n`}`)
  }
  if (license) {
    const text = await licenseText(license, { year, holder: owner })
    if (text === undefined) {
      const problem = 'license: is not an SPDX license id'
      throw new Refused(refuse.unprocessable(problem, [problem]))
    }
    files.set('LICENSE', text)
  }
  return files
}

/** Gitea's label set `Default`. */
const DEFAULT_LABELS: readonly (readonly [name: string, color: string, description: string])[] = [
  ['bug', 'ee0701', 'Something is not working'],
  ['duplicate', 'cccccc', 'This issue or pull request already exists'],
  ['enhancement', '84b6eb', 'New feature'],
  ['help wanted', '128a0c', 'Need some help'],
  ['invalid', 'e6e6e6', 'Something is wrong'],
  ['question', 'cc317c', 'More information is needed'],
  ['wontfix', 'ffffff', "This won't be fixed"],
]

export const addDefaultLabels = (services: Services, context: CommandContext, repoId: number) =>
  addLabels(
    services,
    context,
    repoId,
    DEFAULT_LABELS.map(([name, color, description]) => ({
      step: name,
      settings: { name, color, description, exclusive: false, archived: false },
    })),
  )

/** Creates labels. A retried request continues where its first attempt stopped. */
export async function addLabels(
  services: Services,
  context: CommandContext,
  repoId: number,
  wanted: readonly { step: string; settings: LabelSettings }[],
): Promise<void> {
  for (const { step: name, settings } of wanted) {
    // Each label takes its own number; a retried request takes it again.
    const step = partOf(context, `label ${name}`)
    const id = await takeNumber(services, step, idsStream('label'))
    await labels.change(services, step, id, 'create', (state) =>
      state.status === 'missing'
        ? decideCreateLabel(state, id, { kind: 'repository', repoId }, settings)
        : [],
    )
    context.written = Math.max(context.written, step.written)
  }
}

/** Issue templates on the wire, and their paths in a repository. */
import { type Static, Type } from 'typebox'

const Words = Type.Array(Type.String())

const FieldWire = Type.Object(
  {
    type: Type.String(),
    id: Type.String(),
    attributes: Type.Record(Type.String(), Type.Unknown()),
    validations: Type.Record(Type.String(), Type.Unknown()),
    visible: Words,
  },
  { title: 'IssueFormField' },
)

export const IssueTemplateWire = Type.Object(
  {
    name: Type.String(),
    title: Type.String(),
    about: Type.String(),
    labels: Words,
    assignees: Words,
    ref: Type.String(),
    content: Type.String({ description: 'Body of a template in Markdown' }),
    body: Type.Array(FieldWire, { description: 'Fields of a form' }),
    file_name: Type.String(),
  },
  { title: 'IssueTemplate' },
)

export const IssueConfigWire = Type.Object(
  {
    blank_issues_enabled: Type.Boolean(),
    contact_links: Type.Array(Type.Object({ name: Type.String(), url: Type.String(), about: Type.String() })),
  },
  { title: 'IssueConfig' },
)

/** Directories of templates, in the order of the list. */
export const TEMPLATE_DIRECTORIES: readonly string[] = ['', '.gitea/', '.github/', '.gitlab/'].flatMap(
  (place) => ['ISSUE_TEMPLATE', 'issue_template'].map((name) => `${place}${name}`),
)

/** Possible paths of the configuration; the first existing one counts. */
export const CONFIG_PATHS: readonly string[] = TEMPLATE_DIRECTORIES.filter((path) =>
  /^\.git(ea|hub)\//.test(path),
).flatMap((directory) => ['yaml', 'yml'].map((ending) => `${directory}/config.${ending}`))

/** Whether a file in such a directory may be a template. */
export const isTemplateName = (name: string) => /\.(md|ya?ml)$/i.test(name) && !/^config\.ya?ml$/i.test(name)

export const DEFAULT_CONFIG: Static<typeof IssueConfigWire> = {
  blank_issues_enabled: true,
  contact_links: [],
}

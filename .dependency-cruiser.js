/**
 * Which folder of `src/` may import which; `npm run lint` checks it. When you break a rule, its comment is printed: it
 * says what to do instead. `docs/architecture.md` describes the folders.
 */
import { PROGRAMS } from './scripts/programs.js'

/**
 * The roles of `src/`, the highest first: one folder each. A file may import from its own role and from those below. Some
 * rules below forbid imports between the roles of one line.
 */
const ROLES = [
  ['main.ts'],
  ['cli'],
  ['maintenance'],
  ['server'],
  ['observability'],
  ['web'],
  ['processes'],
  ['commands', 'queries', 'upgrade'],
  ['api'],
  ['access'],
  ['auth'],
  ['services'],
  ['projections'],
  ['events'],
  ['domain'],
  ['git'],
  ['http'],
  ['config'],
  ['concurrency'],
  ['storage'],
  ['errors'],
]

const path = (name) => (name.endsWith('.ts') ? `^src/${name}$` : `^src/${name}/`)
const paths = (names) => names.map(path)

const noImportsFromAbove = ROLES.slice(1).map((line, i) => {
  const names = line.join(', ')
  const above = ROLES.slice(0, i + 1).flat()
  return {
    name: `${names}: no imports from a higher role`,
    comment:
      `${names} must not import from a higher role (${above.join(', ')}). ` +
      'Move the code that both need to a lower role, or pass it in as an argument.',
    severity: 'error',
    from: { path: paths(line) },
    to: { path: paths(above) },
  }
})

const noImports = (name, other, comment) => ({
  name: `${name} does not import ${other}`,
  comment,
  severity: 'error',
  from: { path: path(name) },
  to: { path: path(other) },
})

const programs = `^src/(${PROGRAMS.join('|')})[.]ts$`

/** Deciders and folds, and what both are made of: events, and rules without I/O. */
const PURE = [
  '[.](decider|fold)[.]ts$',
  '^src/projections/models/',
  '^src/events/catalog/',
  '^src/domain/[^/]+$',
]
/** What names and paths mean in git: texts in, texts out. */
const TEXTS_OF_GIT = '^src/git/(objects/byte-names|trees/tree-path|trees/tree-entries)[.]ts$'

export default {
  forbidden: [
    ...noImportsFromAbove,
    {
      name: 'only main.ts is directly in src/',
      comment: 'Put the file into the folder of its role, and there into the folder of its feature.',
      severity: 'error',
      from: {},
      to: { path: '^src/[^/]+[.]ts$', pathNot: '^src/main[.]ts$' },
    },
    noImports(
      'commands',
      'queries',
      'Move the code that a command and a query both need to api/ or access/. Read documents through the views.',
    ),
    noImports(
      'queries',
      'commands',
      'A query only reads. Move the code that a query and a command both need to api/ or access/.',
    ),
    noImports(
      'upgrade',
      'commands',
      'The upgrade Query service only reads. Put commands for upgrades into commands/upgrade/.',
    ),
    noImports('upgrade', 'queries', 'Move the code that both need to api/upgrade/.'),
    noImports('commands', 'upgrade', 'Move the code that both need to api/upgrade/.'),
    noImports('queries', 'upgrade', 'Move the code that both need to api/upgrade/.'),
    noImports(
      'git',
      'storage/attachments',
      'Combine git and attachments in the command or process that needs both.',
    ),
    {
      name: 'no circular imports',
      comment:
        'Files must not import each other in a circle; imports of types count too. ' +
        'Move the part that both files need to a file of its own.',
      severity: 'error',
      from: { path: '^src/' },
      to: { circular: true },
    },
    {
      name: 'deciders and folds are pure',
      comment:
        'A decider or a fold must not import code that does I/O. ' +
        'Read the data in the route or process that calls it, and pass the data as an argument.',
      severity: 'error',
      from: { path: PURE },
      to: {
        path: ['^node:', '^src/(git|storage|http)/', 'node_modules/(fastify|mongodb|@eventstore)/'],
        pathNot: TEXTS_OF_GIT,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'every file is used',
      comment:
        'No program imports this file, not even through others. Delete it; or, when it has routes, add them to server/api-routes.ts.',
      severity: 'error',
      from: { path: programs },
      to: { path: '^src/', pathNot: programs, reachable: false },
    },
    {
      name: 'src/ does not import tests, benchmarks or faults',
      comment: 'Move the code that src/ needs from test/, bench/ or faults/ to src/.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench|faults)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // TypeScript 7 has no interface for it. swc's parser leaves out one form of import, which no-import-types.grit forbids.
    parser: 'swc',
  },
}

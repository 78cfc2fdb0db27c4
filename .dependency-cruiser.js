/**
 * Which folder of `src/` may import which; `npm run lint` checks it. When you break a rule, its comment is printed: it
 * says what to do instead. `docs/architecture.md` describes the folders.
 */
import { PROGRAMS } from './scripts/programs.js'

/**
 * The layers of `src/`, the highest first. A file may import from its own layer and from the layers below. Some rules
 * below forbid imports within a layer.
 */
const LAYERS = [
  ['main.ts', 'server.ts', 'start-checks.ts', 'stores.ts', 'cli', 'backup', 'transfer', 'verify'],
  ['app.ts', 'api-routes.ts'],
  ['observe'],
  ['ui'],
  ['processes'],
  ['commands', 'queries', 'upgrade'],
  ['wire'],
  ['rights'],
  ['services.ts'],
  ['projections'],
  ['nodes'],
  ['events'],
  ['git', 'attachments', 'markup', 'openpgp'],
  ['http'],
  ['config.ts', 'listen-problem.ts', 'make-path.ts'],
]

const path = (name) => (name.endsWith('.ts') ? `^src/${name}$` : `^src/${name}/`)
const paths = (names) => names.map(path)

const noImportsFromAbove = LAYERS.slice(1).map((layer, i) => {
  const names = layer.join(', ')
  const above = LAYERS.slice(0, i + 1).flat()
  return {
    name: `${names}: no imports from a higher layer`,
    comment:
      `${names} must not import from a higher layer (${above.join(', ')}). ` +
      'Move the code that both need to a lower layer, or pass it in as an argument.',
    severity: 'error',
    from: { path: paths(layer) },
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

/** What names and paths mean in git: texts in, texts out. */
const PURE_IN_GIT = '^src/git/(byte-names|tree-path|tree-entries)[.]ts$'

const DECIDERS_AND_FOLDS = [
  '^src/commands/users/user[.]ts$',
  '^src/commands/organizations/(organization|team|team-state)[.]ts$',
  '^src/commands/repositories/(repository|topics|pins|ownership)[.]ts$',
  '^src/commands/(branch|tag)-protections/protections[.]ts$',
  '^src/commands/issues/(issue|discussion|issue-files|lock)[.]ts$',
  '^src/commands/pull-requests/(pull-request|merge-checks|schedule)[.]ts$',
  '^src/commands/reviews/(review|request|outdated)[.]ts$',
  '^src/commands/contents/decide[.]ts$',
  '^src/commands/lfs/lock[.]ts$',
  '^src/commands/webhooks/webhook[.]ts$',
  '^src/commands/(labels/label|milestones/milestone|comments/comment|erasures/erasure|releases/release)[.]ts$',
  '^src/commands/(statuses/checks|upgrade/chain|reactions/reactions|follows/follow|keys/keys|keys/gpg-key)[.]ts$',
  '^src/commands/notifications/subscription[.]ts$',
  PURE_IN_GIT,
  '^src/rights/(access|archived|visibility|protection-rules|tag-protection-rules|review-rules|glob|token-scopes)[.]ts$',
  // The read models, but not the projector and the two read stores in the same folder.
  '^src/projections/(?!mongodb|sqlite|projector|rebuild|generations|view|read-store)',
  '^src/events/(append-size|domain-events|pins|codec|streams|int64|repository-settings)[.]ts$',
  '^src/events/catalog/',
  '^src/events/sealed-texts[.]ts$',
]

export default {
  forbidden: [
    ...noImportsFromAbove,
    {
      name: 'files directly in src/ and concurrency/ import only each other',
      comment:
        'concurrency/, and the files directly in src/ that are not in the list of layers, are the lowest layer. ' +
        'Import only other such files there, or move your file to the folder that it needs.',
      severity: 'error',
      from: {
        path: '^src/(concurrency/)?[^/]+[.]ts$',
        pathNot: paths(LAYERS.flat().filter((name) => name.endsWith('.ts'))),
      },
      to: { path: paths(LAYERS.flat()) },
    },
    noImports(
      'commands',
      'queries',
      'Move the code that a command and a query both need to wire/ or rights/. Read documents through the views.',
    ),
    noImports(
      'queries',
      'commands',
      'A query only reads. Move the code that a query and a command both need to wire/ or rights/.',
    ),
    noImports(
      'upgrade',
      'commands',
      'The upgrade Query service only reads. Put commands for upgrades into commands/upgrade/.',
    ),
    noImports('upgrade', 'queries', 'Move the code that both need to wire/upgrades.ts.'),
    noImports('commands', 'upgrade', 'Move the code that both need to wire/upgrades.ts.'),
    noImports('queries', 'upgrade', 'Move the code that both need to wire/upgrades.ts.'),
    noImports('git', 'attachments', 'Combine git and attachments in the command or process that needs both.'),
    noImports('attachments', 'git', 'Combine git and attachments in the command or process that needs both.'),
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
      from: { path: DECIDERS_AND_FOLDS },
      to: {
        path: ['^node:', '^src/(git|attachments|http)/', 'node_modules/(fastify|mongodb|@eventstore)/'],
        pathNot: PURE_IN_GIT,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'every file is used',
      comment:
        'No program imports this file, not even through others. Delete it; or, when it has routes, add them to api-routes.ts.',
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

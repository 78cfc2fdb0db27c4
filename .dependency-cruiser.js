/**
 * The plan of the house, held by `npm run lint`. Each rule is a sentence; when one is broken, the sentence is printed.
 * `docs/architecture.md` says what each room is for.
 */

/** The floors of `src/`, from the top. A room may use its own floor only where no rule below forbids it. */
const FLOORS = [
  ['main.ts', 'server.ts', 'stores.ts', 'cli', 'backup', 'verify'],
  ['app.ts'],
  ['ui'],
  ['processes'],
  ['commands', 'queries', 'upgrade'],
  ['wire'],
  ['rights'],
  ['services.ts'],
  ['projections'],
  ['events'],
  ['git', 'attachments'],
  ['http'],
  ['config.ts'],
]

const room = (name) => (name.endsWith('.ts') ? `^src/${name}$` : `^src/${name}/`)
const rooms = (names) => names.map(room)

/** A room on a floor imports nothing from the floors above it. */
const arrowsRunDown = FLOORS.slice(1).map((floor, i) => ({
  name: `${floor.join(', ')}: arrows run down`,
  comment: `${floor.join(', ')} imports nothing from the floors above: ${FLOORS.slice(0, i + 1)
    .flat()
    .join(', ')}.`,
  severity: 'error',
  from: { path: rooms(floor) },
  to: { path: rooms(FLOORS.slice(0, i + 1).flat()) },
}))

const apart = (name, other, comment) => ({
  name: `${name} and ${other} are apart`,
  comment,
  severity: 'error',
  from: { path: room(name) },
  to: { path: room(other) },
})

const DECIDERS_AND_FOLDS = [
  '^src/commands/users/user[.]ts$',
  '^src/commands/organizations/organization[.]ts$',
  '^src/commands/repositories/repository[.]ts$',
  '^src/commands/branch-protections/protections[.]ts$',
  '^src/commands/issues/(issue|discussion)[.]ts$',
  '^src/commands/pull-requests/(pull-request|merge-checks|schedule)[.]ts$',
  '^src/commands/(labels/label|milestones/milestone|comments/comment|statuses/checks|upgrade/chain)[.]ts$',
  '^src/rights/(access|visibility|protection-rules|glob|token-scopes)[.]ts$',
  // The read models; beside them stand the projector and the two read stores.
  '^src/projections/(?!mongodb|sqlite|projector|rebuild|generations|view|read-store)',
  '^src/events/(domain-events|upgrade-events|codec|streams|int64|repository-settings)[.]ts$',
]

export default {
  forbidden: [
    ...arrowsRunDown,
    {
      name: 'the ground floor imports nothing of ours',
      comment:
        'A file that stands alone in src/ is the ground floor: it imports only other files of the ground floor.',
      severity: 'error',
      from: {
        path: '^src/[^/]+[.]ts$',
        pathNot: rooms(FLOORS.flat().filter((name) => name.endsWith('.ts'))),
      },
      to: { path: rooms(FLOORS.flat()) },
    },
    apart(
      'commands',
      'queries',
      'A command does not read what a query answers: what both need is on the wire or in rights.',
    ),
    apart('queries', 'commands', 'A query gives no command and knows none.'),
    apart('upgrade', 'commands', 'The Query service only answers; commands for it are in commands/upgrade.'),
    apart('upgrade', 'queries', 'The Query service stands for itself.'),
    apart('commands', 'upgrade', 'What both show of upgrades is in wire/upgrades.ts.'),
    apart('queries', 'upgrade', 'What both show of upgrades is in wire/upgrades.ts.'),
    apart('git', 'attachments', 'git knows nothing of attachments.'),
    apart('attachments', 'git', 'Attachments know nothing of git.'),
    {
      name: 'no two files need each other',
      comment: 'A circle of imports, types included, means that one of the files holds two ideas.',
      severity: 'error',
      from: { path: '^src/' },
      to: { circular: true },
    },
    {
      name: 'deciders and folds are pure',
      comment: 'A decider or a fold takes what it needs as arguments: it imports nothing that does I/O.',
      severity: 'error',
      from: { path: DECIDERS_AND_FOLDS },
      to: {
        path: [
          '^node:',
          '^src/(git|attachments|http)/',
          'node_modules/(fastify|libsql|mongodb|@eventstore)/',
        ],
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'tests and benchmarks are not part of the product',
      comment: 'src/ imports nothing from test/ or bench/.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
  },
}

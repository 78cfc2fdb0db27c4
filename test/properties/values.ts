/**
 * The values of random commands. They are few, so that commands interact: three users, two repositories, four issues
 * and pull requests in each, three commits.
 */
import fc from 'fast-check'
import type { Decision } from '../../src/commands/execution/decider.ts'
import { VISIBILITIES } from '../../src/events/catalog/organizations.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import type { World } from './world.ts'

export const ANN = { id: 1, login: 'ann' }
export const BOB = { id: 2, login: 'bob' }
export const EVE = { id: 3, login: 'eve' }
export const ACME = { id: 9, login: 'acme' }

/** Ann administers everything, Bob writes to the repositories, and Eve is a stranger. */
export const isAdmin = ({ id }: AccountRef) => id === ANN.id
export const isWriter = ({ id }: AccountRef) => id !== EVE.id

/** Repository 2 is Bob's fork of Acme's repository 1. */
export const REPOSITORIES = [1, 2] as const
export const INDEXES = [1, 2, 3, 4] as const
export const SHAS = ['a', 'b', 'c'].map((letter) => letter.repeat(40))
export const DIFF = { additions: 1, deletions: 0, changedFiles: 1 }

export interface Command {
  /** Changes the world. Some routes give several commands. */
  act(world: World): void
}

/** A command with its arguments. A failure prints its text. */
export const command = <Given>(
  name: string,
  given: fc.Arbitrary<Given>,
  act: (world: World, given: Given) => void,
) =>
  given.map((values) => ({
    act: (world: World) => act(world, values),
    [fc.toStringMethod]: () => `${name} ${fc.stringify(values)}`,
  }))

/** Objects like parsed JSON: by default the library's have no prototype. */
export const record = <T>(model: { [Key in keyof T]: fc.Arbitrary<T[Key]> }) =>
  fc.record<T>(model, { noNullPrototype: true })
/** The same, with any of the fields. */
export const partial = <T>(model: { [Key in keyof T]: fc.Arbitrary<T[Key]> }) =>
  fc.record<T, never>(model, { noNullPrototype: true, requiredKeys: [] })

export const oneOf = <const T>(values: readonly T[]) => fc.constantFrom(...values)
export const by = oneOf([ANN, ANN, BOB, BOB, EVE])
export const account = oneOf([ANN, BOB, EVE])
export const repoId = oneOf(REPOSITORIES)
export const sha = oneOf(SHAS)
export const mostly = fc.integer({ min: 0, max: 4 }).map((n) => n > 0)
export const permission = oneOf(['read', 'write', 'admin'])
export const labelId = oneOf([1, 2, 3])
export const milestoneId = oneOf([1, 2])
export const text = oneOf(['', 'hello', 'Hello World'])
export const deadline = oneOf([null, '2026-05-01T23:59:59+02:00', '2026-06-01T23:59:59Z'])
export const visibility = oneOf(VISIBILITIES)

export const gone: Decision<never> = { refused: 'notFound', message: 'not found' }

/** The next id of a comment, a status or a password, never repeated. */
export const nextId = (world: World) => 1000 + world.log.length

/** Warnings at start about probable mistakes in the environment. */
import { settings } from '../config/setting-table.ts'

/** Whether two texts differ by one added, missing or changed letter, or by two swapped ones. */
export function isOneEditAway(one: string, other: string): boolean {
  if (one === other) return false
  const [shorter, longer] = one.length < other.length ? [one, other] : [other, one]
  const at = [...longer].findIndex((letter, i) => letter !== shorter[i])
  const remainder = longer.slice(at + 1)
  if (longer.length > shorter.length) return remainder === shorter.slice(at)
  const [first = '', second = ''] = longer.slice(at)
  return remainder === shorter.slice(at + 1) || second + first + longer.slice(at + 2) === shorter.slice(at)
}

/** Returns a warning for each variable that looks like a misspelt setting. Hides values: they may be passwords. */
function misspelt(env: NodeJS.ProcessEnv): string[] {
  const known = new Set<string>(settings.map(({ name }) => name))
  return Object.keys(env).flatMap((given) => {
    const meant = known.has(given) ? undefined : settings.find(({ name }) => isOneEditAway(given, name))
    return meant === undefined
      ? []
      : [`${given} is not a setting and is ignored. Did you mean ${meant.name}?`]
  })
}

const AS_ROOT =
  'the server runs as root, so an error in it or in git could change the whole machine: start it as a user of its own'

/** `user` is the id of the user that starts the server, on systems with such ids. */
export const startWarnings = (env: NodeJS.ProcessEnv, user = process.geteuid?.()): string[] => [
  ...misspelt(env),
  ...(user === 0 ? [AS_ROOT] : []),
]

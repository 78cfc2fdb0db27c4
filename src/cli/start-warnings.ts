/** Warnings at a start about settings that the operator may not have meant. */
import { settings } from '../config/setting-table.ts'

/** Whether one text becomes the other by one letter more, less, another one, or two that change places. */
export function isOneEditAway(one: string, other: string): boolean {
  if (one === other) return false
  const [shorter, longer] = one.length < other.length ? [one, other] : [other, one]
  const at = [...longer].findIndex((letter, i) => letter !== shorter[i])
  const rest = longer.slice(at + 1)
  if (longer.length > shorter.length) return rest === shorter.slice(at)
  const [first = '', second = ''] = longer.slice(at)
  return rest === shorter.slice(at + 1) || second + first + longer.slice(at + 2) === shorter.slice(at)
}

/** Returns a warning for each variable that looks like a misspelt setting. Shows no value: it may be a password. */
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

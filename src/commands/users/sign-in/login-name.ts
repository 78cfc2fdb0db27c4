/** Derives logins of new accounts from a provider's names. */
import { loginProblem, MAX_LOGIN } from '../accounts/names.ts'

/** Number of candidates when the first ones are taken. */
const MAX_TRIES = 20

/**
 * Returns valid logins for a person, best first: the provider's name, then with numbers. Uses the part of an e-mail
 * address before the @. Empty when no valid one can be derived.
 */
export function loginsFor(login: string, email: string): string[] {
  const name = [login, email].map(validLoginOf).find((made) => made !== '')
  if (name === undefined) return []
  const logins = [name]
  for (let i = 2; i <= MAX_TRIES; i++) {
    const number = `-${i}`
    logins.push(`${withoutEnd(name.slice(0, MAX_LOGIN - number.length))}${number}`)
  }
  return logins.filter((one) => loginProblem(one) === undefined)
}

function validLoginOf(text: string): string {
  const [before = ''] = text.slice(0, 255).split('@')
  const letters = before
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^0-9A-Za-z._-]+/g, '-')
    // Keep the first of several in a row.
    .replace(/([-._])[-._]+/g, '$1')
    .replace(/^[-._]+/, '')
  return withoutEnd(letters.slice(0, MAX_LOGIN))
}

const withoutEnd = (text: string) => text.replace(/[-._]+$/, '')

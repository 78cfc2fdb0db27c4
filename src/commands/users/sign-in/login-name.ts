/** Logins of new accounts, from what a provider calls a person. */
import { loginProblem, MAX_LOGIN } from '../accounts/names.ts'

/** How many logins are tried when the first ones are taken. */
const MAX_TRIES = 20

/**
 * Logins that may be given to the person, the best first: what it is called there, made valid, and then the same with
 * numbers. A login that begins an e-mail address is the part before the @. Empty when nothing valid can be made of it.
 */
export function loginsFor(login: string, email: string): string[] {
  const name = [login, email].map(madeValid).find((made) => made !== '')
  if (name === undefined) return []
  const logins = [name]
  for (let i = 2; i <= MAX_TRIES; i++) {
    const number = `-${i}`
    logins.push(`${withoutEnd(name.slice(0, MAX_LOGIN - number.length))}${number}`)
  }
  return logins.filter((one) => loginProblem(one) === undefined)
}

function madeValid(text: string): string {
  const [before = ''] = text.slice(0, 255).split('@')
  const letters = before
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^0-9A-Za-z._-]+/g, '-')
    // Of several in a row the first stays.
    .replace(/([-._])[-._]+/g, '$1')
    .replace(/^[-._]+/, '')
  return withoutEnd(letters.slice(0, MAX_LOGIN))
}

const withoutEnd = (text: string) => text.replace(/[-._]+$/, '')

/** The cookies of pages. The API and git ignore them. */
import { parseCookie, stringifySetCookie } from 'cookie'

interface Place {
  /** Name prefix that makes browsers accept the cookie only with our attributes and origin. */
  prefix: string
  path: string
  secure: boolean
}

/** Derives the attributes of cookies from the public URL: https or http, at the root of the host or below a path. */
function placeOf(publicUrl: string): Place {
  const { protocol, pathname } = new URL(publicUrl)
  const path = pathname.replace(/\/$/, '')
  const secure = protocol === 'https:'
  const prefix = !secure ? '' : path === '' ? '__Host-' : '__Secure-'
  return { prefix, path: path === '' ? '/' : path, secure }
}

/** The header that sets a cookie for `seconds`. With 0 it is deleted. */
export function setCookie(publicUrl: string, name: string, value: string, seconds: number): string {
  const { prefix, path, secure } = placeOf(publicUrl)
  // Lax: a browser sends it with the GET that the provider redirects to, and with no change of another site.
  return stringifySetCookie({
    name: `${prefix}${name}`,
    value,
    path,
    secure,
    httpOnly: true,
    sameSite: 'lax',
    maxAge: seconds,
  })
}

/** The value of a cookie; undefined without it. */
export function cookieIn(header: string | undefined, publicUrl: string, name: string): string | undefined {
  return header === undefined ? undefined : parseCookie(header)[`${placeOf(publicUrl).prefix}${name}`]
}

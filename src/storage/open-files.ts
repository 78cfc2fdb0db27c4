/** How many files the server may open, and what of that its connections may take. */
import { readFileSync } from 'node:fs'
import { OperatorError } from '../errors/operator-error.ts'

/**
 * The stores, the threads and some git processes need 130. Below this, what is left for connections is too little for a
 * few people at once.
 */
export const MIN_OPEN_FILES = 256

/** Of the files that may be open, the connections of REST and of gRPC may take a quarter each. */
const SHARE = 4

/** How many files this process may have open, with connections; undefined when there is no limit, or nobody says it. */
export function openFilesLimit(limits = readLimits()): number | undefined {
  const [, soft] = /^Max open files\s+(\d+)\s/m.exec(limits) ?? []
  return soft === undefined ? undefined : Number(soft)
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}

/** @throws OperatorError when so few files may be open that the server cannot work */
export function requireOpenFiles(limit = openFilesLimit()): void {
  if (limit === undefined || limit >= MIN_OPEN_FILES) return
  throw new OperatorError(
    `the server may have only ${limit} files open at once, and needs ${MIN_OPEN_FILES}: raise the limit (ulimit -n, or LimitNOFILE of systemd)`,
  )
}

interface Connections {
  maxConnections: number
  maxConnectionsPerAddress: number
}

/** The settings of connections, lowered so that they leave files for everything else. */
export function connectionsWithin<Settings extends Connections>(
  settings: Settings,
  limit = openFilesLimit() ?? Number.POSITIVE_INFINITY,
): Settings {
  const most = Math.floor(limit / SHARE)
  if (settings.maxConnections <= most) return settings
  const ofAddress = Math.min(settings.maxConnectionsPerAddress, Math.ceil(most / 2))
  return { ...settings, maxConnections: most, maxConnectionsPerAddress: ofAddress }
}

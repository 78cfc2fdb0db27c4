/** The limit of open files, and the share of it for connections. */
import { readFileSync } from 'node:fs'
import { OperatorError } from '../errors/operator-error.ts'

/**
 * Minimum number of open files. The stores, threads and some git processes need 130; a few users need 126 for
 * connections.
 */
export const MIN_OPEN_FILES = 256

/** Divisor of the limit: REST connections may use one quarter of the open files, gRPC connections another. */
const SHARE = 4

/** Maximum number of open files of this process; undefined when it is unlimited or unknown. */
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

/** @throws OperatorError when the limit is too low for the server */
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

/** Lowers the connection limits so that enough files remain for stores and git. */
export function connectionsWithin<Settings extends Connections>(
  settings: Settings,
  limit = openFilesLimit() ?? Number.POSITIVE_INFINITY,
): Settings {
  const maxConnections = Math.floor(limit / SHARE)
  if (settings.maxConnections <= maxConnections) return settings
  const ofAddress = Math.min(settings.maxConnectionsPerAddress, Math.ceil(maxConnections / 2))
  return { ...settings, maxConnections: maxConnections, maxConnectionsPerAddress: ofAddress }
}

/** The path below which clients reach the server. A proxy may serve Mergelog below one; otherwise it is empty. */
export const basePath = (publicUrl: string): string => new URL(publicUrl).pathname.replace(/\/$/, '')
